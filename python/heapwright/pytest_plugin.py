"""A pytest plugin: a limit of memory per test.

    @pytest.mark.heapwright(limit="10MiB")
    def test_parse(): ...

fails when the live memory of the process grows by more than the limit during the test function. Its fixtures are not
counted, nor are setUp, tearDown and cleanups of a unittest.TestCase. Limits are checked under
`heapwright record --marked`, and the trace then has what marked tests requested.
"""

import functools
import inspect
import re
import unittest

import pytest

from .recording import is_recorded, record

START = "heapwright record --python --sites=1 --marked -- python3 -m pytest"
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS.update({"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30})
# The first number of bytes that is no limit: 8 EiB, more than a process can address.
_TOO_LARGE = 1 << 63
# An attribute of pytest's configuration: the number of limits that were not checked.
_UNCHECKED = "_heapwright_unchecked"


def number_of_bytes(limit) -> int:
    """Returns the bytes that a limit stands for: a number, or a text such as 10MiB, 1.5 GB or 512K."""
    if isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit >= 0:
        size = limit
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", limit) if isinstance(limit, str) else None
        unit = _UNITS.get(match[2].upper()) if match else None
        if unit is None:
            raise pytest.UsageError(f"a limit of heapwright is a size such as 10MiB, not {limit!r}")
        size = float(match[1]) * unit
    # Also infinity, which is no int.
    if size >= _TOO_LARGE:
        raise pytest.UsageError("a limit of heapwright is a size such as 10MiB, less than 8 EiB")
    return int(size)


def described(size: int) -> str:
    """Returns a size as a person reads it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:.0f} {name}"
    return f"{size} B"


def _limit_of(marker):
    """Returns the limit of a marker in bytes; None without a limit."""
    if len(marker.args) > 1 or set(marker.kwargs) - {"limit"} or (marker.args and marker.kwargs):
        raise pytest.UsageError("the marker of heapwright takes one argument: limit")
    limit = marker.args[0] if marker.args else marker.kwargs.get("limit")
    return None if limit is None else number_of_bytes(limit)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "heapwright(limit=None): record the test, and fail it when its live memory grows by more than the limit "
        f"(under `{START}`)",
    )
    setattr(config, _UNCHECKED, 0)


def _count_unchecked(config, more: int):
    setattr(config, _UNCHECKED, getattr(config, _UNCHECKED) + more)


def _recorded(function, limit):
    """Returns a function that records another, and fails where live memory grew by more than the limit, if there is
    one: a coroutine function for one."""
    if inspect.iscoroutinefunction(function):

        async def call(*arguments, **named):
            block = record()
            with block:
                result = await function(*arguments, **named)
            _check(block.peak, limit)
            return result

    else:

        def call(*arguments, **named):
            block = record()
            with block:
                result = function(*arguments, **named)
            _check(block.peak, limit)
            return result

    return functools.wraps(function)(call)


def _check(peak, limit):
    if None not in (limit, peak) and peak > limit:
        sizes = [described(peak), described(limit)]
        if sizes[0] == sizes[1]:
            sizes = [f"{peak} B", f"{limit} B"]
        text = f"memory grew by {sizes[0]}, and the limit is {sizes[1]} (heapwright)"
        pytest.fail(f"{text}: `heapwright sites` of the trace shows which functions held it", pytrace=False)


# Of the kind that all versions of pytest know. It raises nothing behind the `yield`, where not all can.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("heapwright")
    limit = None if marker is None else _limit_of(marker)
    # Doctests and items of other plugins have no function of their own.
    if marker is None or not is_recorded() or not isinstance(item, pytest.Function):
        _count_unchecked(item.config, limit is not None)
        yield
        return
    # The function alone: what runs now includes what pytest and its plugins take, and setUp, tearDown and cleanups of
    # unittest. pytest makes unittest call `item.obj`; unittest itself looks coroutines up in the instance.
    function = item.obj
    is_of_unittest = issubclass(getattr(item, "cls", None) or object, unittest.TestCase)
    instance = getattr(function, "__self__", None) if is_of_unittest else None
    item.obj = _recorded(function, limit)
    if instance is not None:
        setattr(instance, item.name, item.obj)
    yield
    item.obj = function
    if instance is not None:
        vars(instance).pop(item.name, None)


def pytest_sessionfinish(session):
    # Of a worker of pytest-xdist, for the process that prints the summary.
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_UNCHECKED] = getattr(session.config, _UNCHECKED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _count_unchecked(node.config, getattr(node, "workeroutput", {}).get(_UNCHECKED, 0))


def pytest_terminal_summary(terminalreporter, config):
    count = getattr(config, _UNCHECKED)
    if count:
        limits = "1 limit of memory was" if count == 1 else f"{count} limits of memory were"
        why = "only functions are recorded" if is_recorded() else f"to check them: {START}"
        terminalreporter.write_line(f"heapwright: {limits} not checked; {why}")
