"""Finding chunks behind a damaged place, and the evidence that they give about it.

Strategy: each chunk is found through the one before it, so behind damage the chain is broken. It is resumed at the
magic of a header; a header is believed if it passes its CRC and names its own position. If only a batch is damaged, its
chunk's header still gives the place of the next one, so nothing inside a payload is taken for a chunk. If the header
itself is damaged, a payload that imitates one at the right position could deceive: it would keep a journal from
opening, or survive a repair.

Blocks. Knows nothing of the remedies.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hutong.foundation.errors import CorruptData
from hutong.journal.format import chunk
from hutong.journal.read.walk import SegmentWindow


class Behind(NamedTuple):
    """The chunks behind a damaged place, sound by their headers."""

    first: chunk.Chunk | None  # in the same segment
    witness: chunk.Chunk | None  # the first one that was made when the damaged place had been flushed


def chunks_behind(window: SegmentWindow, position: int, end_position: int) -> Iterator[chunk.Chunk]:
    """The chunks with a sound header behind the damaged place at `position`, up to `end_position`."""
    damaged = _chunk_at(window, position, end_position)
    at = position + len(chunk.MAGIC) if damaged is None else damaged.end
    while at < end_position:
        found = _chunk_at(window, at, end_position)
        if found is None:
            at = window.find_header(at + 1, end_position)
        else:
            yield found
            at = found.end


def search_behind(window: SegmentWindow, position: int, end_position: int, later: Iterable[SegmentWindow]) -> Behind:
    """Search behind `position` in its own segment, then at the first chunk of each later one."""
    first = witness = None
    for found in chunks_behind(window, position, end_position):
        first = first or found
        if found.flushed_position > position:
            witness = found
            break
    for other in later:
        if witness is not None:
            break
        found_there = _chunk_at(other, other.base_position, other.end_position)
        if found_there is not None and found_there.flushed_position > position:
            witness = found_there
    return Behind(first, witness)


def _chunk_at(window: SegmentWindow, position: int, end_position: int) -> chunk.Chunk | None:
    try:
        found = window.chunk_at(position)
    except CorruptData:
        return None
    return found if found.end <= end_position else None
