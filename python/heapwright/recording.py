"""Blocks of a program to which a recording is limited, and by how much the memory of the process grew in them."""

import ctypes
from typing import Optional

START = "heapwright record --python --sites=1 --marked -- python3 ..."


class NotRecordedError(RuntimeError):
    """The process does not run under `heapwright record --marked`, or 4,096 recorded blocks are open in it."""


class _Marked(ctypes.Structure):
    """What the recorder remembers of a block until it ends."""

    _fields_ = [("live", ctypes.c_int64), ("peak", ctypes.c_int64)]


def _functions():
    """Returns the recorder's functions, if its library is loaded into this process."""
    try:
        process = ctypes.CDLL(None)
        begin, end = process.heapwright_record_begin, process.heapwright_record_end
    except (AttributeError, OSError):
        return None
    begin.restype, begin.argtypes = ctypes.c_int, [ctypes.POINTER(_Marked)]
    end.restype, end.argtypes = ctypes.c_uint64, [ctypes.POINTER(_Marked)]
    return begin, end


class record:
    """Records what the process requests within the block, in all threads:

        with heapwright.record() as block:
            work()
        print(block.peak)

    The process must run under `heapwright record --marked`; otherwise NotRecordedError is raised. The trace has what was
    requested within such blocks, and when that was freed, also later. Blocks may be nested.
    """

    peak: Optional[int] = None
    """Bytes by which the live memory of the process grew within the block at most, once it has ended."""

    def __init__(self):
        self._open = []

    def __enter__(self):
        functions = _functions()
        marked = _Marked()
        if functions is None or not functions[0](ctypes.byref(marked)):
            raise NotRecordedError(
                f"this process is not recorded, or 4,096 recorded blocks are open in it: start it with `{START}`"
            )
        self._open.append((functions[1], marked))
        return self

    def __exit__(self, *_):
        end, marked = self._open.pop()
        self.peak = end(ctypes.byref(marked))


def is_recorded() -> bool:
    """Returns whether `record` works in this process."""
    try:
        with record():
            return True
    except NotRecordedError:
        return False
