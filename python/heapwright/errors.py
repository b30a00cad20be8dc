"""The exceptions. Each has the number of its status in heapwright.h and a text that says what to do next."""


class Error(Exception):
    """An operation of a heap failed. Nothing has changed."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class NotFoundError(Error, FileNotFoundError):
    """No heap of this name exists."""


class ExistsError(Error, FileExistsError):
    """A heap of this name exists already."""


class FullError(Error, MemoryError):
    """No hole fits the request and the heap cannot grow, or the system has no memory."""


class LockTimeoutError(Error, TimeoutError):
    """A process that lives holds the lock for longer than the handle's patience."""


class DamagedError(Error):
    """The heap contradicts itself: run `heapwright shm repair`."""


_BY_STATUS = {
    6: FullError,
    12: DamagedError,
    13: FullError,
    15: ExistsError,
    16: NotFoundError,
    23: LockTimeoutError,
    25: FullError,
    30: LockTimeoutError,
}


def failure(status: int, text: str) -> Error:
    """Returns the exception of a status of heapwright.h."""
    return _BY_STATUS.get(status, Error)(status, text)
