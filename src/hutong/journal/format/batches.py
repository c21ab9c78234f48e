"""The batches of a run: cutting a run to the range of a read, and checking batches that come from a disk.

A run was validated when it was appended, so one in memory is only cut. One from a disk is checked again. A batch's CRC
covers everything from the attributes on. Magic, leader epoch and base offset, which it leaves out, must agree with the
chunk's header; a wrong length, also left out, makes the CRC fail. Knows nothing of records; decoding them is the
wire's.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.wire.kafka.batch.records import CRC_START, HEADER_BYTES, LENGTH_END, MAGIC

LEADER: Final = struct.Struct(">qii")  # base offset, length, leader epoch: the writer rewrites them in its copy
_STEP: Final = struct.Struct(
    ">qi11xi"
)  # base offset, length, (leader epoch, magic, CRC, attributes), last offset delta
_CHECKED: Final = struct.Struct(">qiibI2xi")  # base offset, length, leader epoch, magic, CRC, (..), last offset delta
_BATCH_BYTES_MIN: Final = HEADER_BYTES - LENGTH_END


def cut(view: memoryview, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> memoryview:
    """The whole batches of a run from the one that holds `offset` up to `limit`, at most `max_bytes` of them.

    With `at_least_one` the first is taken at any size. Raises CorruptData for a length beyond the run.
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
            # KIP-74: the first batch is returned at any size, so that a consumer always makes progress.
            if end - first > max_bytes and not (is_first and at_least_one):
                break
            last_end = end
        start = end
    return view[max(first, 0) : last_end]


def end_offset_of(views: Sequence[memoryview]) -> int:
    """The offset behind the last batch of views that hold whole, sound batches; 0 where there is none."""
    if not views:
        return 0
    view, start, end_offset = views[-1], 0, 0
    while start < len(view):
        base_offset, length, last_offset_delta = _STEP.unpack_from(view, start)
        end_offset = base_offset + last_offset_delta + 1
        start += LENGTH_END + length
    return end_offset


class Damage(NamedTuple):
    """The first batch of a view that is not what was appended: where it begins, and what is wrong, to follow its name.

    With `is_gap` it may only be that its offset does not follow on the one before.
    """

    at: int
    what: str
    is_gap: bool = False


def find_damage(
    view: memoryview, next_offset: int, end_offset: int, leader_epoch: int, *, gaps_allowed: bool = False
) -> Damage | None:
    """Check the whole batches in `view`, the first of which should have `next_offset`.

    Returns None if they are as they were appended. Offsets follow on each other and stay before `end_offset`; with
    `gaps_allowed` some may be missing.
    """
    start, total = 0, len(view)
    unpack = _CHECKED.unpack_from
    while start < total:
        if total - start < HEADER_BYTES:
            return Damage(start, "is cut off")
        base_offset, length, epoch, magic, crc, last_offset_delta = unpack(view, start)
        end = start + LENGTH_END + length
        if length < _BATCH_BYTES_MIN or end > total:
            return Damage(start, "has a wrong length")
        if crc32c(view[start + CRC_START : end]) != crc:
            return Damage(start, "fails its CRC")
        # The CRC leaves out base offset and epoch, so they are compared with what the chunk's header allows.
        if magic != MAGIC or epoch != leader_epoch or base_offset < next_offset or last_offset_delta < 0:
            return Damage(start, "is not the one that belongs there")
        if base_offset != next_offset and not gaps_allowed:
            return Damage(start, "is not the one that belongs there", is_gap=True)
        next_offset = base_offset + last_offset_delta + 1
        if next_offset > end_offset:
            return Damage(start, "has offsets beyond its run")
        start = end
    return None


def has_gaps(view: memoryview, base_offset: int, offset_count: int) -> bool:
    """True if the batches of a whole run, in order, hold fewer offsets than the run spans: cleaning took some."""
    start, total = 0, len(view)
    next_offset, held = base_offset, 0
    while start < total:
        batch_offset, end_offset, size = step(view[start:], total - start) or (-1, -1, 0)
        if not size or batch_offset < next_offset or end_offset > base_offset + offset_count:
            return False
        held += end_offset - batch_offset
        next_offset = end_offset
        start += size
    return held < offset_count


def step(header: memoryview, bytes_left: int) -> tuple[int, int, int] | None:
    """Base offset, end offset and size that a batch header gives, None where that cannot be a batch of the run."""
    if bytes_left < HEADER_BYTES:
        return None
    base_offset, length, last_offset_delta = _STEP.unpack_from(header)
    size = LENGTH_END + length
    if size < HEADER_BYTES or size > bytes_left or last_offset_delta < 0:
        return None
    return base_offset, base_offset + last_offset_delta + 1, size
