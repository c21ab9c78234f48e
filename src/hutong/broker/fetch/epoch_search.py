"""The search for the ends of leader epochs, which a fetch that names earlier ones needs to know (KIP-595).

Strategy: all searches of a request at once. They may need the disk, so the fetch makes its pass after the last one.
Knows nothing of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hutong.foundation.errors import HutongError

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition
    from hutong.journal.log import EpochEnd

Found = dict[tuple["Partition", int], "EpochEnd | HutongError"]


def find_epoch_ends(wanted: Sequence[tuple[Partition, int]], then: Callable[[Found], None]) -> None:
    """`then` gets the end of each epoch, or the error that its search ended with."""
    found: Found = {}
    outstanding = len(set(wanted))

    def searched(key: tuple[Partition, int], end: EpochEnd | HutongError) -> None:
        found[key] = end
        if len(found) == outstanding:
            then(found)

    for key in dict.fromkeys(wanted):
        key[0].log.end_of_epoch(key[1], partial(searched, key))
