"""Mutexes in shared heaps."""

import ctypes
import functools
import os
from typing import Callable, List, Optional

from .library import NOT_THE_HOLDER, OK, PREVIOUS_HOLDER_DIED, NotCopied, library, require

#: The statuses with which a mutex is locked.
_LOCKED = (OK, PREVIOUS_HOLDER_DIED)


def _exit_function():
    """Returns `hw_shared_unlock` as a function in C that also takes the three arguments of `__exit__`.

    It raises the exception of a failure. C functions of Linux ignore arguments that they do not have: the caller
    passes and removes them.
    """
    objects = (ctypes.py_object,) * 3
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *objects)
    function = kind(("hw_shared_unlock", library))
    function.errcheck = lambda status, _function, _arguments: require(status)
    return function


_unlock_at_exit = _exit_function()


class _Enter:
    """`Mutex.__enter__`: `lock`, without a record of its own that the mutex is held. `__exit__` keeps the heap open."""

    def __get__(self, mutex: Optional["Mutex"], _type=None) -> Callable[..., bool]:
        return Mutex.lock if mutex is None else Mutex(mutex._heap, mutex._block).lock


class _Exit:
    """`Mutex.__exit__`: for a `with` statement a function in C, as that of `threading.Lock`. In a function of Python a
    signal handler may raise before its first line, and the mutex would stay locked.

    The statement has the function from its beginning to its end. So long the function keeps the heap open.
    """

    def __get__(self, mutex: Optional["Mutex"], _type=None) -> Callable[..., None]:
        if mutex is None:
            return lambda mutex, *_: mutex.unlock()
        return functools.partial(_unlock_at_exit, mutex._heap._open_handle(), mutex._memory())


class Mutex(NotCopied):
    """A mutex that processes share, and that survives the death of its holder.

        with heap.mutex("totals") as previous_holder_died:
            if previous_holder_died:
                restore_the_totals()
                ...

    A thread that waits does not hold Python's global lock. The mutex is not reentrant. It keeps the heap open while a
    thread waits for it or holds it. An exception that a signal handler raises, such as that of Ctrl-C, leaves it
    unlocked when it leaves the `with` statement.
    """

    #: Bytes of a mutex in a block.
    SIZE = 16

    #: What follows them in the block of a mutex with a name.
    MARK = b"HWmutex1"

    def __init__(self, heap, block):
        self._heap = heap
        self._block = block
        #: The memory of the mutex while it is held by a call of `lock` of this object.
        self._held: Optional[ctypes.Array] = None

    def lock(self) -> bool:
        """Locks the mutex. Returns whether a process died while it held it, and no holder has called `mark_consistent`
        since. Raises `LockTimeoutError` when one holder, which lives, does not unlock it in time. The mutex is not held
        when an exception leaves this function, also that of a signal handler."""
        handle, memory = self._heap._open_handle(), self._memory()
        outcome: List[int] = []
        try:
            # Stored by C alone: a signal handler that raises runs when it is known whether the mutex is locked.
            outcome.extend(map(library.hw_shared_lock, (handle,), (memory,)))
            if outcome[0] not in _LOCKED:
                require(outcome[0])
            self._held = memory
            return outcome[0] == PREVIOUS_HOLDER_DIED
        except BaseException:
            # At once: no other call, before which a handler may raise again, comes first.
            if outcome and outcome[0] in _LOCKED:
                library.hw_shared_unlock(handle, memory)
                self._held = None
            raise
        finally:
            # Not for as long as the exception lives.
            del memory

    def unlock(self) -> None:
        """Unlocks the mutex. Raises `Error` if this process does not hold it."""
        handle, memory, held = self._heap._open_handle(), self._memory(), self._held
        outcome: List[int] = []
        try:
            # Before the mutex is free: then another thread may lock it by this object.
            self._held = None
            outcome.extend(map(library.hw_shared_unlock, (handle,), (memory,)))
            require(outcome[0])
        except BaseException:
            # The child of a fork does not hold what its parent held.
            if not (outcome and outcome[0] in (OK, NOT_THE_HOLDER)):
                self._held = held
            raise
        finally:
            del memory, held

    def mark_consistent(self) -> None:
        """Declares the data that the mutex guards consistent. The mutex is held."""
        require(library.hw_shared_mark_consistent(self._heap._open_handle(), self._memory()))

    def _memory(self) -> ctypes.Array:
        return self._heap._memory(self._block.offset, self.SIZE, os.getpid())

    def _instead_of_a_copy(self) -> str:
        return f"use mutex() of the heap in each process, opened by its name ({self._heap.name!r})"

    __enter__ = _Enter()
    __exit__ = _Exit()
