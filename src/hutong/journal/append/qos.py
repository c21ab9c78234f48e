"""Quality of service: when an append is acknowledged.

Strategy: every level waits for positions to pass its chunk: none, the one flushed here, the one that the other in-sync
replicas hold, or the lesser of what is flushed here and on their disks. `ALL` is released by whichever of these two
comes last, so it needs no event of its own.

Knows nothing of how a position advances.
"""

from enum import IntEnum


class Qos(IntEnum):
    """The levels of JMQ, weakest first. The numbers are its wire values."""

    ONE_WAY = 0  # never acknowledged on the wire
    RECEIVE = 1  # held in memory: by the writer, and from the end of the loop iteration in the cache
    PERSISTENCE = 2  # flushed here
    REPLICATION = 3  # held in memory by every in-sync replica
    ALL = 4  # flushed by every in-sync replica


def released_through(qos: Qos, flushed_position: int, held_position: int, stored_position: int) -> int:
    """Chunks that end at or before the returned position may be acknowledged at `qos`, which is above RECEIVE.

    The last two positions are those of the other replicas.
    """
    if qos is Qos.PERSISTENCE:
        return flushed_position
    if qos is Qos.REPLICATION:
        return held_position
    return min(flushed_position, stored_position)
