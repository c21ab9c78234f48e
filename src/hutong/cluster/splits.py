"""Partitions that were given a partition group of their own, so that they can move alone.

    wanted    the leader of the source is asked to yield
    made      the source has a new epoch; the new group has all of its stream before that, and the same replicas
    lean      of what the source had, the new group has its own logs alone: other nodes may copy it, and it moves on

Strategy: the new group begins as a copy of the old one, on each replica by itself: members of the set have all that is
committed, of the one as of the other. From then on each has a stream of its own. A partition is in the group that was
last split off for it.

Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

FIRST_NUMBER: Final = 100
"""Groups that were split off have numbers from here on, as a lifetime's slots have smaller ones."""
SPLIT_GROUPS_MAX: Final = 32
"""Each is a journal with its threads on every node."""


class Split(msgspec.Struct, frozen=True):
    """These logs of the group `source` shall have a group of their own.

    `epoch` is the last one of the source in which it had them, 0 while the split is not made. Once it is, it never
    changes: who reads the metadata must know of it before any later state of the source.
    """

    source: str
    log_ids: tuple[int, ...]
    epoch: int = 0

    @property
    def is_made(self) -> bool:
        return self.epoch > 0


def split_name(lifetime: str, number: int) -> str:
    return f"{lifetime}-{number}"


def places_of(splits: Mapping[str, Split]) -> dict[int, str]:
    """The groups of all logs that were split off."""
    # A log that was split off twice is in the younger group, and numbers rise.
    made = sorted((name for name, split in splits.items() if split.is_made), key=_number_of)
    return {log_id: name for name in made for log_id in splits[name].log_ids}


def next_number(splits: Iterable[str], last: int) -> int:
    """The number of a new group, `last` is the greatest that was ever given."""
    return 1 + max([FIRST_NUMBER - 1, last, *map(_number_of, splits)])


def _number_of(name: str) -> int:
    return int(name.rpartition("-")[2])
