"""Quality of service: when an append is acknowledged.

Strategy: every level waits for one position to pass its chunk: none, the flushed one, the committed one (a majority
holds it), or both. `ALL` is released by whichever of flush and commit comes last, so it waits for the lesser of the
two and needs no event of its own.

Knows nothing of how a position advances.
"""

from enum import IntEnum


class Qos(IntEnum):
    """The levels of JMQ, weakest first. The numbers are its wire values."""

    ONE_WAY = 0  # never acknowledged on the wire
    RECEIVE = 1  # held in memory: by the writer, and from the end of the loop iteration in the cache
    PERSISTENCE = 2  # flushed
    REPLICATION = 3  # committed: a majority holds it in memory
    ALL = 4  # flushed and committed


def released_through(qos: Qos, flushed_position: int, committed_position: int) -> int:
    """Chunks that end at or before the returned position may be acknowledged at `qos`, which is above RECEIVE."""
    if qos is Qos.PERSISTENCE:
        return flushed_position
    if qos is Qos.REPLICATION:
        return committed_position
    return min(flushed_position, committed_position)
