"""Shared heaps, their blocks, arrays and mutexes."""

import ctypes
import itertools
import os
import threading
import weakref
from ctypes import byref, c_size_t, c_uint32, c_uint64
from typing import Iterator, Optional

from . import arrays
from .errors import Error, failure
from .library import (
    NOT_THE_HOLDER,
    OK,
    PREVIOUS_HOLDER_DIED,
    ROOT_DIFFERS,
    VISIT_ROOT,
    Access,
    Reclaimed,
    Settings,
    library,
    opened,
    require,
    succeeded,
    text,
    unsigned,
)


class SharedHeap:
    """A heap in shared memory. Make one with `create`, `open` or `open_or_create`.

    All methods may be called from any thread. Names of blocks, arrays and mutexes have 1 to 40 bytes of UTF-8.
    """

    def __init__(self, handle, name: str):
        self._handle = handle
        #: The memory behind views of blocks, by a number that counts up.
        self._views = weakref.WeakValueDictionary()
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
        """Closes the heap; its blocks stay. Raises `BufferError` while views of its blocks exist in this process, or it
        holds a mutex of the heap."""
        with self._lock:
            if self._handle is None:
                return
            views = len(self._views)
            if views > 0:
                found = "a view of a block" if views == 1 else f"{views} views of blocks"
                raise BufferError(f"{found} of {self.name}, or a held mutex, exist; delete or unlock them first")
            handle, self._handle = self._handle, None
        require(library.hw_shared_close(handle))

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
            library.hw_shared_close(handle)

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
        """Frees a block. Raises `BufferError` while views of it exist in this process."""
        self._require_no_views(block)
        require(library.hw_shared_free_offset(self._open_handle(), block.offset))

    def _require_no_views(self, block: "Block") -> None:
        # In one step: other threads make views meanwhile.
        views = [reference() for reference in self._views.valuerefs()]
        if any(view is not None and view.offset == block.offset for view in views):
            raise BufferError("views of the block exist in this process; delete them first")

    # Names.

    def __setitem__(self, name: str, block: "Block") -> None:
        require(library.hw_shared_set_root(self._open_handle(), text(name), block.offset, None))

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
        status = library.hw_shared_replace_root(self._open_handle(), text(name), 0, block.offset)
        if status not in (OK, ROOT_DIFFERS):
            require(status)
        return status == OK

    # Arrays.

    def create_array(self, name: str, shape, dtype="f8"):
        """Creates a NumPy array of zeros under a name. Raises `ExistsError` if the name is taken.

        Nobody finds the array before it is complete.
        """
        header, length = arrays.header_of(shape, dtype)
        block = self.allocate(length)
        try:
            arrays.write(block.buffer, header)
            arrays.read(block.buffer, name)
            if not self.set_if_absent(name, block):
                raise failure(15, f"the name {name!r} is taken; open it with array(), or delete it first")
        except BaseException:
            self.free(block)
            raise
        return self.array(name)

    def array(self, name: str):
        """Returns the NumPy array of a name: a view of the shared memory. Raises `KeyError` if there is none."""
        return arrays.read(self[name].buffer, name)

    def delete_array(self, name: str) -> None:
        """Removes an array's name and frees it. Other processes must not use it any more. Raises `BufferError`, and
        changes nothing, while views of it exist in this process."""
        block = self[name]
        arrays.read(block.buffer, name)
        self._require_no_views(block)
        del self[name]
        self.free(block)

    # Mutexes.

    def mutex(self, name: str) -> "Mutex":
        """Returns the mutex of a name, which is created if there is none. Raises `Error` if it names something else."""
        if name not in self:
            block = self.allocate(Mutex.SIZE + len(Mutex.MARK))
            is_named = False
            try:
                block.buffer[: Mutex.SIZE + len(Mutex.MARK)] = bytes(Mutex.SIZE) + Mutex.MARK
                is_named = self.set_if_absent(name, block)
            finally:
                if not is_named:
                    self.free(block)
        block = self[name]
        if block.buffer[Mutex.SIZE : Mutex.SIZE + len(Mutex.MARK)] != Mutex.MARK:
            raise Error(8, f"{name!r} is a block, but not a mutex that mutex() made")
        return Mutex(self, block)

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

    def _memory(self, offset: int, size: int) -> ctypes.Array:
        """Returns the memory of a block. The object keeps the heap open."""
        address = library.hw_shared_base(self._open_handle()) + offset
        memory = (ctypes.c_ubyte * size).from_address(address)
        memory.heap, memory.offset = self, offset
        with self._lock:
            # In this order, so that a signal handler that comes in between does not close the heap.
            self._views[next(self._numbers)] = memory
            self._open_handle()
        return memory


#: The heaps of this process.
_heaps = weakref.WeakSet()


def _renew_locks() -> None:
    """Frees, in the child of a fork, the locks that threads of its parent held."""
    for heap in _heaps:
        heap._renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


class Block:
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

    def __eq__(self, other) -> bool:
        return isinstance(other, Block) and self.heap is other.heap and self.offset == other.offset

    def __hash__(self) -> int:
        return hash(self.offset)

    def __repr__(self) -> str:
        return f"<heapwright.Block at {self.offset:#x} of {self.heap.name!r}>"


class Mutex:
    """A mutex that processes share, and that survives the death of its holder.

        with heap.mutex("totals") as previous_holder_died:
            if previous_holder_died:
                restore_the_totals()
                ...

    A thread that waits does not hold Python's global lock. The mutex is not reentrant. It keeps the heap open while a
    thread waits for it or holds it.
    """

    #: Bytes of a mutex in a block.
    SIZE = 16

    #: What follows them in the block of a mutex with a name.
    MARK = b"HWmutex1"

    def __init__(self, heap: SharedHeap, block: Block):
        self._heap = heap
        self._block = block
        #: The memory of the mutex while it is held by this object.
        self._held: Optional[ctypes.Array] = None

    def lock(self) -> bool:
        """Locks the mutex. Returns whether a process died while it held it, and no holder has called `mark_consistent`
        since. Raises `LockTimeoutError` when one holder, which lives, does not unlock it in time."""
        memory = self._memory()
        status = library.hw_shared_lock(self._heap._open_handle(), ctypes.addressof(memory))
        if status in (OK, PREVIOUS_HOLDER_DIED):
            self._held = memory
        # Not for as long as the exception lives.
        del memory
        if status != PREVIOUS_HOLDER_DIED:
            require(status)
        return status == PREVIOUS_HOLDER_DIED

    def unlock(self) -> None:
        """Unlocks the mutex. Raises `Error` if this process does not hold it."""
        memory = self._memory()
        held, self._held = self._held, None
        try:
            require(library.hw_shared_unlock(self._heap._open_handle(), ctypes.addressof(memory)))
        except Error as refused:
            # The child of a fork does not hold what its parent held.
            if refused.status != NOT_THE_HOLDER:
                self._held = held
            raise

    def mark_consistent(self) -> None:
        """Declares the data that the mutex guards consistent. The mutex is held."""
        require(library.hw_shared_mark_consistent(self._heap._open_handle(), ctypes.addressof(self._memory())))

    def _memory(self) -> ctypes.Array:
        return self._heap._memory(self._block.offset, self.SIZE)

    def __enter__(self) -> bool:
        return self.lock()

    def __exit__(self, *_) -> None:
        self.unlock()


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
        small_blocks=1 if slabs else 0,
        patience=_milliseconds(patience),
    )
