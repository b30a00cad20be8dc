"""NumPy arrays in blocks: a header that describes the array, then its items.

The header is 8 bytes of mark, its whole length (4 bytes), the length of a JSON text (4 bytes), and the text: data type
and shape. Its length is a multiple of 64.
"""

import json
import operator
import struct
from typing import Tuple

from .errors import Error

#: What a text that was not written by this module makes of JSON, of NumPy and of this module.
_NOT_AN_ARRAY = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, SyntaxError, struct.error
)

MARK = b"HWarray1"
_FIXED = struct.Struct("<8sII")
_ALIGNMENT = 64


def _numpy():
    try:
        import numpy
    except ImportError as error:
        raise ImportError("arrays need NumPy: pip install numpy") from error
    return numpy


def header_of(shape, dtype) -> Tuple[bytes, int]:
    """Returns an array's header, and the bytes of the block that it needs."""
    numpy = _numpy()
    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"arrays of {dtype} contain references to objects of one process")
    shape = tuple(operator.index(length) for length in (shape if hasattr(shape, "__iter__") else (shape,)))
    # A type of arrays adds to the shape, as in NumPy's own arrays.
    dtype, shape = dtype.base, shape + dtype.shape
    if dtype.kind in "SUV" and dtype.names is None and dtype.itemsize == 0:
        raise ValueError(f"the data type {dtype.kind!r} has no length: give it one, such as {dtype.kind}20")
    if any(length < 0 for length in shape):
        raise ValueError("the lengths of an array are not negative")
    # Without memory behind it: NumPy refuses shapes that no array has.
    items = numpy.broadcast_to(numpy.empty((), dtype), shape).size
    text = json.dumps({"dtype": numpy.lib.format.dtype_to_descr(dtype), "shape": shape}).encode()
    length = -(-(_FIXED.size + len(text)) // _ALIGNMENT) * _ALIGNMENT
    header = _FIXED.pack(MARK, length, len(text)) + text
    return header.ljust(length, b"\0"), length + items * dtype.itemsize


def write(memory: memoryview, header: bytes) -> None:
    """Writes an array of zeros into a block."""
    numpy = _numpy()
    memory[: len(header)] = header
    numpy.frombuffer(memory, dtype="u1")[len(header) :] = 0


def header_in(memory: memoryview, name: str) -> bytes:
    """Returns the header in a block. Raises `Error` if the block contains none."""
    try:
        mark, length, text = _FIXED.unpack_from(memory)
        if mark != MARK or length % _ALIGNMENT != 0 or _FIXED.size + text > length:
            raise ValueError("no mark of an array")
        return bytes(memory[: _FIXED.size + text])
    except _NOT_AN_ARRAY as error:
        raise _refused(name, error) from None


def view(memory: memoryview, header: bytes, name: str):
    """Returns the array that a header describes in a block. Raises `Error` if there is none, or the block is shorter."""
    numpy = _numpy()
    try:
        _, offset, text = _FIXED.unpack_from(header)
        described = json.loads(header[_FIXED.size : _FIXED.size + text])
        dtype = numpy.lib.format.descr_to_dtype(_tuples(described["dtype"]))
        if dtype.hasobject:
            raise ValueError("objects")
        shape = tuple(operator.index(length) for length in described["shape"])
        if not isinstance(described["shape"], list) or any(length < 0 for length in shape):
            raise ValueError("no lengths of an array")
        return numpy.ndarray(shape, dtype, memory, offset=offset)
    except _NOT_AN_ARRAY as error:
        raise _refused(name, error) from None


def read(memory: memoryview, name: str):
    """Returns the array in a block. Raises `Error` if the block contains none."""
    return view(memory, header_in(memory, name), name)


def _refused(name: str, error: Exception) -> Error:
    return Error(8, f"{name!r} is a block, but not an array: {error}")


def _tuples(described):
    """Returns a description of a data type as NumPy expects it: JSON has lists where it has tuples."""
    if isinstance(described, str):
        return described
    return [tuple(_field(part) for part in field) for field in described]


def _field(part):
    if isinstance(part, list):
        nested = part and isinstance(part[0], list)
        return _tuples(part) if nested else tuple(part)
    return part
