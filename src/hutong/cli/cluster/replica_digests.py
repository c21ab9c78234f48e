"""Comparing what replicas hold, by digests: which offset is the first that is not the same everywhere.

Strategy: what every replica must have, and what cleaning may have taken out of one while it is still in another, are
two questions. A record that two replicas have must be the same in both. One that a replica lacks is a difference unless
cleaning has been there.

Knows nothing of connections.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from hutong.journal.read.digests import ENTRY

CLEANED_EVERYWHERE: Final = -1


class Difference(NamedTuple):
    """The first offset at which nodes do not have what the leader has, and a sentence on it."""

    offset: int
    nodes: tuple[int, ...]
    what: str


def first_difference(leader: int, entries: Mapping[int, bytes], cleaned: Mapping[int, int]) -> Difference | None:
    """Compare the entries of one range of offsets, by node. `cleaned` has the offset before which a node may lack some.

    Whole batches are compared with `cleaned` empty: none may be missing.
    """
    expected = entries[leader]
    if all(found == expected for found in entries.values()):
        return None
    held = {node: dict(ENTRY.iter_unpack(found)) for node, found in entries.items()}
    for offset in sorted({offset for found in held.values() for offset in found}):
        values = {node: found.get(offset) for node, found in held.items()}
        lacking = tuple(n for n, v in values.items() if v is None and offset >= cleaned.get(n, CLEANED_EVERYWHERE))
        present = {node: value for node, value in values.items() if value is not None}
        # Where cleaning took the leader's away, any other one is as good to compare with.
        reference = present.get(leader, next(iter(present.values())))
        others = tuple(node for node, value in present.items() if value != reference)
        if lacking:
            return Difference(offset, lacking, "is missing")
        if others:
            return Difference(offset, others, "is not the same")
    return None
