"""Heaps that processes share.

A shared heap lies in POSIX shared memory, or in a file. Any number of processes use it at once, and each may be killed
at any moment: the others go on, and what it stored stays.

    import heapwright

    heap = heapwright.SharedHeap.open_or_create("prices", max_size=1 << 30)
    prices = heap.create_array("today", (1000, 4), "f8")     # a NumPy array
    prices[:] = 1.5

    # In another process:
    heap = heapwright.SharedHeap.open("prices")
    print(heap.array("today").mean())

Under `heapwright record --marked`, `record` limits the recording of a program to a block:

    with heapwright.record():
        work()
"""

from .errors import (
    DamagedError,
    Error,
    ExistsError,
    FullError,
    LockTimeoutError,
    NotFoundError,
)
from .mutexes import Mutex
from .recording import NotRecordedError, record
from .shared import Block, SharedHeap

__all__ = [
    "Block",
    "DamagedError",
    "Error",
    "ExistsError",
    "FullError",
    "LockTimeoutError",
    "Mutex",
    "NotFoundError",
    "NotRecordedError",
    "SharedHeap",
    "record",
]
__version__ = "0.1.0"
