"""Cutting a run to what a reader asked for: whole batches, found by the header fields that lead from one to the next.

A run was validated when it was appended and checked when it was recovered; a walk still trusts no length blindly.
Knows nothing of records; decoding them is the wire's.
"""

import struct
from typing import Final

from hutong.foundation.errors import CorruptData
from hutong.wire.kafka.records import HEADER_BYTES, LENGTH_END

LEADER: Final = struct.Struct(">qii")  # base offset, length, leader epoch: what the writer rewrites in its copy
_STEP: Final = struct.Struct(
    ">qi11xi"
)  # base offset, length, (leader epoch, magic, CRC, attributes), last offset delta


def cut(view: memoryview, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> memoryview:
    """The whole batches of a run from the one that holds `offset` up to `limit`, at most `max_bytes` of them.

    With `at_least_one` the first is taken whatever its size. Raises CorruptData where a length leads out of the run.
    """
    start, total = 0, len(view)
    first, last_end = -1, 0
    while start < total:
        if total - start < HEADER_BYTES:
            raise CorruptData("a run of batches ends inside a batch header")
        base_offset, length, last_offset_delta = _STEP.unpack_from(view, start)
        end = start + LENGTH_END + length
        if length < HEADER_BYTES - LENGTH_END or end > total:
            raise CorruptData("a batch is longer than the run that holds it")
        if base_offset >= limit:
            break
        if base_offset + last_offset_delta >= offset:
            is_first = first < 0
            if is_first:
                first = last_end = start
            if end - first > max_bytes and not (is_first and at_least_one):
                break
            last_end = end
        start = end
    return view[max(first, 0) : last_end]
