"""Shared heaps, their blocks, arrays and mutexes."""

import ctypes
import functools
import itertools
import os
import threading
import weakref
from ctypes import byref, c_size_t, c_uint32, c_uint64
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import arrays
from .errors import Error, ExistsError, LockTimeoutError, failure
from .library import (
    OK,
    ROOT_DIFFERS,
    VISIT_ROOT,
    Access,
    NotCopied,
    Reclaimed,
    Settings,
    close,
    library,
    opened,
    require,
    succeeded,
    text,
    unsigned,
    whole,
)
from .mutexes import Mutex


#: How often the block of a name is found to be none of its kind before it is refused.
_ATTEMPTS = 5


class SharedHeap(NotCopied):
    """A heap in shared memory. Make one with `create`, `open` or `open_or_create`.

    All methods may be called from any thread. Names of blocks, arrays and mutexes have 1 to 40 bytes of UTF-8.
    """

    def __init__(self, handle, name: str):
        self._handle = handle
        #: References to the memory behind views of blocks, by a number that counts up.
        self._views: Dict[int, weakref.ref] = {}
        self._numbers = itertools.count()
        self._renew_lock()
        self.name = name
        _heaps.add(self)

    def _renew_lock(self) -> None:
        """Makes the lock a free one. It is reentrant: a signal handler runs in the middle of what its thread does."""
        self._lock = threading.RLock()

    @classmethod
    def create(cls, name: str, **settings) -> "SharedHeap":
        """Creates a heap. Raises `ExistsError` if there is one of this name.

        Settings: `size`, bytes of blocks at first (1 MiB); `max_size`, bytes up to which the heap grows (it does not);
        `policy`, a placement policy by name ("best"); `mode`, permission bits (0o600); `granule`, the smallest unit in
        bytes (64); `processes`, how many attach at a time (64); `roots`, how many names there is room for (32);
        `slabs`, whether blocks of at most 4 KiB come from slabs of each process, without the lock (`False`); `patience`,
        seconds that a call waits for a process that holds a lock (10).
        """
        return cls(opened(library.hw_shared_create, name, _settings("create", settings)), name)

    @classmethod
    def open(cls, name: str, *, patience: float = 10.0) -> "SharedHeap":
        """Opens a heap. Raises `NotFoundError` if there is none of this name."""
        return cls(opened(library.hw_shared_open, name, Access(patience=_milliseconds(patience))), name)

    @classmethod
    def open_or_create(cls, name: str, **settings) -> "SharedHeap":
        """Opens a heap, and creates it if there is none of this name. Settings as for `create`."""
        return cls(opened(library.hw_shared_open_or_create, name, _settings("open_or_create", settings)), name)

    @staticmethod
    def unlink(name: str) -> None:
        """Removes a heap's name. Processes that have it open keep it. Raises `Error` for a file that is no heap."""
        require(library.hw_shared_unlink(text(name)))

    def close(self) -> None:
        """Closes the heap; its blocks stay. Raises `BufferError` while views of its blocks that were made through this
        object exist in this process, or it holds a mutex of the heap."""
        with self._lock:
            if self._handle is None:
                return
            views = sum(view is not None and view.process in (None, os.getpid()) for view in self._all_views())
            if views > 0:
                found = "a view of a block" if views == 1 else f"{views} views of blocks"
                raise BufferError(f"{found} of {self.name}, or a held mutex, exist; delete or unlock them first")
            handle, self._handle = self._handle, None
        require(close(handle))

    def __enter__(self) -> "SharedHeap":
        return self

    def __exit__(self, raised, *_) -> None:
        """Closes the heap. If views exist and the body raised an exception, that is raised, and the heap stays open."""
        try:
            self.close()
        except BufferError:
            if raised is None:
                raise

    def __del__(self):
        # Views keep the heap alive, hence none exists.
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            close(handle)

    def _instead_of_a_copy(self) -> str:
        return f"open it by its name instead, with heapwright.SharedHeap.open({self.name!r})"

    def __repr__(self) -> str:
        return f"<heapwright.SharedHeap {self.name!r}{'' if self._handle else ', closed'}>"

    @property
    def size(self) -> int:
        """Bytes of blocks now, used and free."""
        return succeeded(library.hw_shared_size(self._open_handle()))

    @property
    def max_size(self) -> int:
        """Bytes of blocks at most."""
        return library.hw_shared_max_size(self._open_handle())

    def allocate(self, size: int, alignment: int = 64) -> "Block":
        """Allocates a block of at least `size` bytes, whose contents are arbitrary."""
        size = whole(size, "the size of a block")
        if size < 0:
            raise ValueError("the size of a block is not negative")
        if size >= 1 << 63:
            raise failure(6, f"no hole has {size} bytes, and no heap can grow to them")
        unsigned(alignment, c_size_t, "the alignment")
        offset = c_uint64()
        require(library.hw_shared_allocate_offset(self._open_handle(), size, alignment, byref(offset)))
        return Block(self, offset.value)

    def block(self, offset: int) -> "Block":
        """Returns the block that starts at an offset, which a process allocated."""
        return Block(self, unsigned(offset, c_uint64, "the offset"))

    def free(self, block: "Block") -> None:
        """Frees a block. Raises `BufferError` while views of it that were made through this object exist in this
        process: as other processes, other objects that have the heap open must not use it any more."""
        offset = self._offset_of(block)
        self._require_no_views(block)
        require(library.hw_shared_free_offset(self._open_handle(), offset))

    def _offset_of(self, block: "Block") -> int:
        """Returns the offset of a block of this heap: that of another heap names another block here."""
        if not isinstance(block, Block):
            raise TypeError(f"a block of the heap is expected, not {type(block).__name__}")
        if block.heap is not self and text(block.heap.name) != text(self.name):
            raise ValueError(f"the block is one of the heap {block.heap.name!r}, not of {self.name!r}")
        return block.offset

    def _require_no_views(self, block: "Block") -> None:
        if any(view is not None and view.offset == block.offset for view in self._all_views()):
            raise BufferError("views of the block exist in this process; delete them first")

    def _all_views(self) -> List[Optional[ctypes.Array]]:
        # Copied in one step: other threads make views meanwhile.
        return [reference() for reference in self._views.copy().values()]

    # Names.

    def __setitem__(self, name: str, block: "Block") -> None:
        require(library.hw_shared_set_root(self._open_handle(), text(name), self._offset_of(block), None))

    def __getitem__(self, name: str) -> "Block":
        offset = self._root(name)
        if offset == 0:
            raise KeyError(name)
        return Block(self, offset)

    def __delitem__(self, name: str) -> None:
        """Removes the name, not the block."""
        old = c_uint64()
        require(library.hw_shared_remove_root(self._open_handle(), text(name), byref(old)))
        if old.value == 0:
            raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, (str, bytes)) and self._root(name) != 0

    def __iter__(self) -> Iterator[str]:
        names = []

        def visit(root, _):
            names.append(root.contents.name.decode("utf-8", "replace"))
            return 0

        require(library.hw_shared_walk_roots(self._open_handle(), VISIT_ROOT(visit), None))
        return iter(names)

    def set_if_absent(self, name: str, block: "Block") -> bool:
        """Names a block if the name is free; returns whether it was. One of several processes succeeds."""
        status = library.hw_shared_replace_root(self._open_handle(), text(name), 0, self._offset_of(block))
        if status not in (OK, ROOT_DIFFERS):
            require(status)
        return status == OK

    def _named(self, name: str, length: int, fill: Callable[["Block"], Any]) -> Tuple["Block", Any]:
        """Allocates a block, has it filled, and gives it a name. Returns the block and what `fill` returned. Raises
        `ExistsError` if the name is taken."""
        block = self.allocate(length)
        outcome: List[int] = []
        try:
            filled = fill(block)
            # Stored by C alone: a signal handler that raises runs when it is known whether the block has the name.
            arguments = (self._open_handle(), text(name), 0, block.offset)
            outcome.extend(map(library.hw_shared_replace_root, *((argument,) for argument in arguments)))
            if outcome[0] == ROOT_DIFFERS:
                raise failure(15, f"the name {name!r} is taken; open it with array(), or delete it first")
            require(outcome[0])
            return block, filled
        except BaseException:
            # Other processes may have found, or freed, what has the name.
            if not (outcome and outcome[0] == OK):
                # The exception may have views of it in its traceback.
                library.hw_shared_free_offset(self._open_handle(), block.offset)
            raise

    def _found(self, name: str, look: Callable[["Block"], Any], make: Callable[["Block", Any], Any]) -> Any:
        """Returns what `make` makes of the block of a name and of what `look` finds there. Raises `KeyError` if there is
        no block of this name.

        Looks again when another block gets the name meanwhile: what was read may be anything then. When it was the same
        block before and after, another one may have been there in between, under the same name: hence the second look,
        and several attempts before a block is refused.
        """
        refusals = 0
        while True:
            block = self[name]
            try:
                found = look(block)
                if self._root(name) == block.offset and look(block) == found:
                    return make(block, found)
            except LockTimeoutError:
                raise
            except Error:
                refusals += self._root(name) == block.offset
                if refusals == _ATTEMPTS:
                    raise

    # Arrays.

    def create_array(self, name: str, shape, dtype="f8"):
        """Creates a NumPy array of zeros under a name. Raises `ExistsError` if the name is taken.

        No process finds the array before it is complete. The array that was made is returned, also if another process
        has deleted it by then: it must not be used after that, as `delete_array` says.
        """
        header, length = arrays.header_of(shape, dtype)

        def fill(block):
            arrays.write(block.buffer, header)
            return arrays.read(block.buffer, name)

        return self._named(name, length, fill)[1]

    def array(self, name: str):
        """Returns the NumPy array of a name: a view of the shared memory. Raises `KeyError` if there is none.

        The array is that of the name, with its own type and shape, also while other processes replace it. When it is
        deleted after that, its memory may become part of other blocks: nothing prevents this, or shows it.
        """
        return self._found(
            name,
            lambda block: arrays.header_in(block.buffer, name),
            lambda block, header: arrays.view(block.buffer, header, name),
        )

    def delete_array(self, name: str) -> None:
        """Removes an array's name and frees that array, no other. Raises `KeyError` if there is none, also
        when another process deletes it first. Other processes, and other objects that have the heap open, must not
        use it any more. Raises `BufferError`, and changes nothing, while views of it that were made through this
        object exist in this process."""
        while True:
            block = self._found(name, lambda block: arrays.header_in(block.buffer, name), lambda block, _: block)
            self._require_no_views(block)
            status = library.hw_shared_replace_root(self._open_handle(), text(name), block.offset, 0)
            if status != ROOT_DIFFERS:
                break
        require(status)
        # It has no name, and is this process's since: no other process frees it.
        require(library.hw_shared_free_offset(self._open_handle(), block.offset))

    # Mutexes.

    def mutex(self, name: str) -> "Mutex":
        """Returns the mutex of a name, which is created if there is none. Raises `Error` if it names something else."""
        end = Mutex.SIZE + len(Mutex.MARK)

        def fill(block):
            block.buffer[:end] = bytes(Mutex.SIZE) + Mutex.MARK

        def mutex_in(block, mark):
            if mark != Mutex.MARK:
                raise Error(8, f"{name!r} is a block, but not a mutex that mutex() made")
            return Mutex(self, block)

        while True:
            try:
                return self._found(name, lambda block: bytes(block.buffer[Mutex.SIZE : end]), mutex_in)
            except KeyError:
                pass
            try:
                return Mutex(self, self._named(name, end, fill)[0])
            except ExistsError:
                pass

    def reclaim(self) -> int:
        """Frees the blocks of processes that died, except those with names; returns how many were freed."""
        reclaimed = Reclaimed()
        require(library.hw_shared_reclaim(self._open_handle(), 0, byref(reclaimed)))
        return reclaimed.blocks

    def _root(self, name: str) -> int:
        offset = c_uint64()
        require(library.hw_shared_get_root(self._open_handle(), text(name), byref(offset)))
        return offset.value

    def _open_handle(self):
        handle = self._handle
        if handle is None:
            raise ValueError(f"the heap {self.name} is closed")
        return handle

    def _view(self, offset: int, size: int) -> memoryview:
        """Returns a view of the memory of a block, which keeps the heap open."""
        return memoryview(self._memory(offset, size)).cast("B")

    def _memory(self, offset: int, size: int, process: Optional[int] = None) -> ctypes.Array:
        """Returns the memory of a block. The object keeps the heap open; in one process only, if that is named."""
        address = library.hw_shared_base(self._open_handle()) + offset
        memory = (ctypes.c_ubyte * size).from_address(address)
        memory.heap, memory.offset, memory.process = self, offset, process
        number = next(self._numbers)
        # A function in C takes the reference out: what a signal handler raised in one of Python would be lost.
        reference = weakref.ref(memory, functools.partial(self._views.pop, number))
        with self._lock:
            # In this order, so that a signal handler that comes in between does not close the heap.
            self._views[number] = reference
            self._open_handle()
        return memory


#: The heaps of this process.
_heaps = weakref.WeakSet()


def _renew_locks() -> None:
    """Frees, in the child of a fork, the locks that threads of its parent held."""
    for heap in _heaps:
        heap._renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


class Block(NotCopied):
    """A block of a heap. It stays when its process ends, and until it is freed."""

    __slots__ = ("heap", "offset")

    def __init__(self, heap: SharedHeap, offset: int):
        self.heap = heap
        #: The distance from the first byte of the segment: the same in every process.
        self.offset = offset

    @property
    def size(self) -> int:
        """The usable bytes, at least those that were requested. Raises `Error` if this is no block."""
        return succeeded(library.hw_shared_usable_size_offset(self.heap._open_handle(), self.offset))

    @property
    def buffer(self) -> memoryview:
        """The block's bytes, writable, without a copy. The heap stays open while the view, or what is made of it, lives."""
        return self.heap._view(self.offset, self.size)

    def __buffer__(self, _flags: int) -> memoryview:
        return self.buffer

    def free(self) -> None:
        """Frees the block."""
        self.heap.free(self)

    def _instead_of_a_copy(self) -> str:
        return f"pass on its offset, and use block({self.offset}) of the heap, which is opened by its name"

    def __eq__(self, other) -> bool:
        return isinstance(other, Block) and self.heap is other.heap and self.offset == other.offset

    def __hash__(self) -> int:
        return hash(self.offset)

    def __repr__(self) -> str:
        return f"<heapwright.Block at {self.offset:#x} of {self.heap.name!r}>"


def _milliseconds(seconds: float) -> int:
    if not seconds >= 0:
        raise ValueError(f"patience is {seconds}; it must be 0 seconds or more")
    return max(1, round(min(seconds * 1000, 0xFFFFFFFF)))


def _settings(function: str, given: dict) -> Settings:
    """Returns the settings that a function was called with. Raises `TypeError` if one of them is none."""
    known = tuple(_encoded.__kwdefaults__)
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() has no setting {name!r}; its settings are {', '.join(known)}")
    return _encoded(**given)


def _encoded(
    *,
    size: int = 0,
    max_size: int = 0,
    policy: Optional[str] = None,
    mode: int = 0,
    granule: int = 0,
    processes: int = 0,
    roots: int = 0,
    seed: int = 0,
    slabs: bool = False,
    patience: float = 10.0,
) -> Settings:
    if not isinstance(slabs, bool):
        raise TypeError(f"slabs is {slabs!r}; it must be True or False")
    number = 0 if policy is None else library.hw_policy_from_name(str(policy).encode())
    if policy is not None and number == 0:
        raise ValueError(f"no such policy: {policy}; there are first, next, best, worst, random, buddy, good")
    return Settings(
        size=unsigned(size, c_size_t, "size"),
        max_size=unsigned(max_size, c_size_t, "max_size"),
        seed=unsigned(seed, c_uint64, "seed"),
        policy=number,
        mode=unsigned(mode, c_uint32, "mode"),
        granule=unsigned(granule, c_uint32, "granule"),
        processes=unsigned(processes, c_uint32, "processes"),
        roots=unsigned(roots, c_uint32, "roots"),
        small_blocks=int(slabs),
        patience=_milliseconds(patience),
    )
