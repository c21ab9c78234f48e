"""The basis of the compiled passes: the compiler's settings, and the elementary reads and copies.

A pass works on bytes by position. Reads are chained: one that would leave its bounds returns the position -1, every
read accepts -1 and hands it on, and the caller tests once at the end of the chain. Subscripts are unchecked in compiled
code, so nothing here touches a byte before comparing with `end`.

Loops are given pointers, not arrays: see `pointer_to`.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")

Bytes = NDArray[np.uint8]
BytePointer = NDArray[np.uint8]
"""The result of `pointer_to`: supports subscripts like an array, has no length."""
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

VARINT_SHIFT_MAX = 28
VARLONG_SHIFT_MAX = 63


def discard_stale_code(folder: Path) -> None:
    """Remove machine code in `folder` that is older than any source there.

    numba compiles a function again when the function's own file changed, but not when a function or a constant that it
    took from another file did.
    """
    newest = max((source.stat().st_mtime for source in folder.rglob("*.py")), default=0.0)  # none inside a zip
    for code in folder.rglob("*.nb[ic]"):
        with suppress(OSError):  # another process was faster, or the folder is read-only
            if code.stat().st_mtime < newest:
                code.unlink()


discard_stale_code(Path(__file__).parent)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile on the first call, and cache the machine code next to the source (or in the user's cache folder)."""
    return cast(Callable[P, T], numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compiles into each caller: for small reads in a loop, where a call costs more than the read."""
    return cast(Callable[P, T], numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function))


def _pointer_to(typing_context: Any, array: Any) -> Any:
    signature = cast(Any, types.CPointer)(array.dtype)(array)

    def build(context: Any, builder: Any, built_signature: Any, arguments: Any) -> Any:
        return context.make_array(built_signature.args[0])(context, builder, arguments[0]).data

    return signature, build


pointer_to: Callable[[Any], Any] = cast(Any, intrinsic(_pointer_to))
"""The address of an array's first element, to be subscripted as in C. The caller keeps the array alive.

Arrays handed to a function are reference-counted there, atomically: inside a loop that costs more than its work.
"""


def _copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def build(context: Any, builder: Any, built_signature: Any, arguments: Any) -> Any:
        target_pointer, target_index, source_pointer, source_index, size = arguments
        to = builder.gep(target_pointer, [target_index])
        cast(Any, cgutils.raw_memcpy)(builder, to, builder.gep(source_pointer, [source_index]), size, 1)
        return context.get_dummy_value()

    return signature, build


copy_bytes: Callable[[BytePointer, int, BytePointer, int, int], None] = cast(Any, intrinsic(_copy_bytes))
"""`copy_bytes(target, target_at, source, source_at, count)`: one memcpy between pointers to bytes.

Checks nothing: the caller has. A loop costs many times more for the short runs that keys and values are.
"""


def bytes_of(buffer: Any) -> Bytes:
    """A read-only array over a buffer. Always read-only, because a writable one is another type to the compiler."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array


@inlined
def read_varint(data: BytePointer, position: int, end: int) -> tuple[int, int]:
    """The zig-zag coded signed 32-bit number at `position` and the position after it, or (0, -1)."""
    if position < 0 or position >= end:
        return 0, -1
    byte = np.int64(data[position])
    position += 1
    number = byte & 127
    shift = 7
    while byte > 127:
        if shift > VARINT_SHIFT_MAX or position >= end:
            return 0, -1
        byte = np.int64(data[position])
        position += 1
        number |= (byte & 127) << shift
        shift += 7
    if number > 0xFFFF_FFFF:
        return 0, -1
    return int((number >> 1) ^ -(number & 1)), position


@inlined
def read_varlong(data: BytePointer, position: int, end: int) -> tuple[int, int]:
    """The zig-zag coded signed 64-bit number at `position` and the position after it, or (0, -1)."""
    if position < 0 or position >= end:
        return 0, -1
    byte = np.int64(data[position])
    position += 1
    number = byte & 127
    shift = 7
    while byte > 127:
        if shift > VARLONG_SHIFT_MAX or position >= end:
            return 0, -1
        byte = np.int64(data[position])
        position += 1
        if shift == VARLONG_SHIFT_MAX and byte > 1:
            return 0, -1
        number |= (byte & 127) << shift
        shift += 7
    return int(np.uint64(number) >> np.uint64(1)) ^ -int(number & 1), position


@compiled
def read_int32(data: BytePointer, position: int) -> int:
    """The big-endian signed 32-bit number at `position`; the caller has checked that it is there."""
    number = np.uint32(0)
    for index in range(4):
        number = (number << np.uint32(8)) | np.uint32(data[position + index])
    return int(np.int32(number))


@compiled
def read_int64(data: BytePointer, position: int) -> int:
    """The big-endian signed 64-bit number at `position`; the caller has checked that it is there."""
    number = np.uint64(0)
    for index in range(8):
        number = (number << np.uint64(8)) | np.uint64(data[position + index])
    return int(np.int64(number))


@inlined
def write_varint(target: BytePointer, position: int, number: int) -> int:
    """Write a signed 32-bit number, zig-zag coded, and return the position after it. At most 5 bytes."""
    rest = np.uint64((number << 1) ^ (number >> 63))
    while rest > np.uint64(127):
        target[position] = np.uint8((rest & np.uint64(127)) | np.uint64(128))
        rest >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(rest)
    return position + 1


@inlined
def varint_size(number: int) -> int:
    """Return the number of bytes that `write_varint` writes."""
    rest = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while rest > np.uint64(127):
        rest >>= np.uint64(7)
        size += 1
    return size
