"""The functions of heapwright.h that the package uses."""

import ctypes
import operator
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from .errors import failure

OK = 0
ROOT_DIFFERS = 28
NOT_THE_HOLDER = 32
PREVIOUS_HOLDER_DIED = 31


class Settings(Structure):
    """hw_shared_settings."""

    _fields_ = [
        ("size", c_size_t),
        ("max_size", c_size_t),
        ("seed", c_uint64),
        ("policy", c_uint32),
        ("mode", c_uint32),
        ("granule", c_uint32),
        ("processes", c_uint32),
        ("roots", c_uint32),
        ("patience", c_uint32),
        ("small_blocks", c_uint32),
    ]


class Access(Structure):
    """hw_shared_access."""

    _fields_ = [("patience", c_uint32), ("owner", c_uint32), ("user", c_uint32)]


class Root(Structure):
    """hw_shared_root."""

    _fields_ = [("offset", c_uint64), ("name", c_char * 48)]


class Reclaimed(Structure):
    """hw_shared_reclaimed."""

    _fields_ = [("blocks", c_uint64), ("bytes", c_uint64), ("kept", c_uint64)]


VISIT_ROOT = ctypes.CFUNCTYPE(c_int, POINTER(Root), c_void_p)

_SIGNATURES = {
    "hw_policy_from_name": (c_uint32, [c_char_p]),
    "hw_shared_last_error": (c_char_p, []),
    "hw_shared_last_status": (c_int, []),
    "hw_shared_create": (c_int, [c_char_p, POINTER(Settings), POINTER(c_void_p)]),
    "hw_shared_open": (c_int, [c_char_p, POINTER(Access), POINTER(c_void_p)]),
    "hw_shared_open_or_create": (c_int, [c_char_p, POINTER(Settings), POINTER(c_void_p)]),
    "hw_shared_close": (c_int, [c_void_p]),
    "hw_shared_unlink": (c_int, [c_char_p]),
    "hw_shared_allocate_offset": (c_int, [c_void_p, c_size_t, c_size_t, POINTER(c_uint64)]),
    "hw_shared_free_offset": (c_int, [c_void_p, c_uint64]),
    "hw_shared_usable_size_offset": (c_size_t, [c_void_p, c_uint64]),
    "hw_shared_base": (c_void_p, [c_void_p]),
    "hw_shared_get_root": (c_int, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "hw_shared_set_root": (c_int, [c_void_p, c_char_p, c_uint64, POINTER(c_uint64)]),
    "hw_shared_replace_root": (c_int, [c_void_p, c_char_p, c_uint64, c_uint64]),
    "hw_shared_remove_root": (c_int, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "hw_shared_walk_roots": (c_int, [c_void_p, VISIT_ROOT, c_void_p]),
    "hw_shared_size": (c_size_t, [c_void_p]),
    "hw_shared_max_size": (c_size_t, [c_void_p]),
    "hw_shared_reclaim": (c_int, [c_void_p, c_uint32, POINTER(Reclaimed)]),
    "hw_shared_lock": (c_int, [c_void_p, c_void_p]),
    "hw_shared_unlock": (c_int, [c_void_p, c_void_p]),
    "hw_shared_mark_consistent": (c_int, [c_void_p, c_void_p]),
}


def _load() -> ctypes.CDLL:
    path = os.environ.get("HEAPWRIGHT_C_LIBRARY") or os.path.join(os.path.dirname(__file__), "libheapwright_c.so")
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def require(status: int) -> None:
    """Raises the exception of a status other than OK."""
    if status != OK:
        raise failure(status, library.hw_shared_last_error().decode("utf-8", "replace"))


def succeeded(result: int) -> int:
    """Returns the result of a function that returns 0 when it fails. Raises the exception of its status then."""
    if result == 0:
        require(library.hw_shared_last_status())
    return result


def whole(value: int, what: str) -> int:
    """Returns a whole number. Raises `TypeError` if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}; it must be a whole number") from None


def unsigned(value: int, kind, what: str) -> int:
    """Returns a number that fits its type in C, of which ctypes would drop the high bits. Raises `TypeError` if it is no
    whole number, otherwise `ValueError`."""
    value = whole(value, what)
    most = (1 << 8 * ctypes.sizeof(kind)) - 1
    if not 0 <= value <= most:
        raise ValueError(f"{what} is {value}; it must be from 0 to {most}")
    return value


def text(name: str) -> bytes:
    """Returns a name as C expects it. Raises `ValueError` if it contains a NUL, where C would end it."""
    if not isinstance(name, (str, bytes, os.PathLike)):
        raise TypeError(f"a name is a string, not {type(name).__name__}")
    encoded = os.fsencode(name)
    if b"\0" in encoded:
        raise ValueError(f"the name {name!r} contains a NUL")
    return encoded


def close(handle: c_void_p) -> int:
    """Closes a heap, and makes the handle null: calls that still have it are refused."""
    closed = c_void_p(handle.value)
    handle.value = None
    return library.hw_shared_close(closed)


class NotCopied:
    """What exists once, in one process: copy, deepcopy and pickle are refused."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: {self._instead_of_a_copy()}")

    def _instead_of_a_copy(self) -> str:
        raise NotImplementedError


def opened(function, name: str, argument) -> c_void_p:
    """Calls a function that opens a heap, and returns the handle."""
    handle = c_void_p()
    require(function(text(name), byref(argument), byref(handle)))
    return handle
