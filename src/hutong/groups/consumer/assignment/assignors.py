"""Assignors that run on the broker instead of in a client (KIP-848).

Strategy: pure functions from what is there (members with their subscriptions and what they had, topics with their
partition counts) to what shall be. Members are taken in a fixed order, so that the same question has the same answer.

`uniform` spreads partitions as evenly as subscriptions allow and moves as few as that takes. `range` gives each member
a run of neighbouring partitions, the same run of every topic of a size: who joins two such topics finds the same keys
in one place.

Knows nothing of epochs, of time, or of how members get from what they have to what they shall have.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hutong.groups.consumer.messages import Partition

Assignment: TypeAlias = dict[str, frozenset[Partition]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member: the ids of the topics it reads, what it was to have until now, and the name it is sorted by."""

    topics: frozenset[bytes]
    previous: frozenset[Partition] = frozenset()
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Assignment]


def uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """Evenly and sticky. `topics` has the number of partitions of each; every member gets an entry."""
    if not members:
        return {}
    # The usual case, which needs no search for the readers of each topic.
    if len({member.topics for member in members.values()}) == 1:
        return _uniform_alike(members, topics)
    return _uniform_mixed(members, topics)


def range_(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """Runs of adjacent partitions, topic by topic."""
    shares: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    # By instance id, so that a static member keeps its run under a new member id.
    order = sorted(members, key=lambda member_id: (members[member_id].instance_id or member_id, member_id))
    readers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic in members[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    for topic, readers_here in readers.items():
        start, (quota, extra) = 0, divmod(topics.get(topic, 0), len(readers_here))
        for place, member_id in enumerate(readers_here):
            # As in Kafka's range assignor the first members get one partition more.
            end = start + quota + (place < extra)
            shares[member_id].update((topic, index) for index in range(start, end))
            start = end
    return _frozen(shares)


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": range_}


def _uniform_alike(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """All read the same topics: everyone gets the same number, and some of them one more."""
    subscribed = next(iter(members.values())).topics
    unassigned = dict.fromkeys(_partitions_of(subscribed, topics))
    quota, extra = divmod(len(unassigned), len(members))
    shares: dict[str, set[Partition]] = {}
    for member_id in sorted(members):
        kept = sorted(partition for partition in members[member_id].previous if partition in unassigned)
        # A member that has one more keeps it while there are extras, which moves fewest.
        has_extra = len(kept) > quota and extra > 0
        extra -= has_extra
        shares[member_id] = set(kept[: quota + has_extra])
        for partition in shares[member_id]:
            del unassigned[partition]
    rest = iter(unassigned)
    for share in shares.values():
        while len(share) < quota:
            share.add(next(rest))
    # The extras that no member had before.
    for share, partition in zip((share for share in shares.values() if len(share) == quota), rest, strict=False):
        share.add(partition)
    return _frozen(shares)


class _Levels:
    """Members by their loads: for each number of partitions, the members with that number, as bits of an integer.

    Bits follow the order of names, so the lowest bit of a level is the member that comes first. The least loaded of 500
    readers costs a handful of integer operations, not 500 comparisons.
    """

    def __init__(self, loads: Sequence[int]) -> None:
        self.loads = list(loads)
        self._levels = [0] * (max(loads) + 1)
        for place, load in enumerate(loads):
            self._levels[load] |= 1 << place

    def least(self, readers: int, level: int) -> tuple[int, int]:
        """The lowest level, from `level` on, that has one of the readers, and the first of them there."""
        while not (found := self._levels[level] & readers):
            level += 1
        return level, (found & -found).bit_length() - 1

    def change(self, place: int, by: int) -> None:
        load, bit = self.loads[place], 1 << place
        self.loads[place] = load + by
        self._levels[load] ^= bit
        if load + by == len(self._levels):
            self._levels.append(0)
        self._levels[load + by] |= bit


def _uniform_mixed(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """Keep partitions if subscriptions differ, give the rest to the least loaded members, then even out."""
    names = sorted(members)
    readers = _readers_of([members[name].topics for name in names])
    owners: dict[Partition, int] = {}  # places in `names`
    for place, name in enumerate(names):
        subscribed = members[name].topics
        for partition in members[name].previous:
            if partition[0] in subscribed and partition[1] < topics.get(partition[0], 0):
                owners.setdefault(partition, place)
    counts = Counter(owners.values())
    levels = _Levels([counts[place] for place in range(len(names))])
    # Those with the fewest readers first: the others have more choice.
    for topic in sorted(readers, key=lambda topic: (readers[topic].bit_count(), topic)):
        level = 0  # of the least loaded reader; it never falls while partitions of one topic are given away
        for index in range(topics.get(topic, 0)):
            if (topic, index) not in owners:
                level, place = levels.least(readers[topic], level)
                owners[topic, index] = place
                levels.change(place, 1)
    _even_out(owners, levels, readers, topics)
    shares: list[set[Partition]] = [set() for _ in names]
    for partition, place in owners.items():
        shares[place].add(partition)
    return {name: frozenset(share) for name, share in zip(names, shares, strict=True)}


def _readers_of(subscriptions: Sequence[frozenset[bytes]]) -> dict[bytes, int]:
    """The readers of each topic, as bits. Many members have few subscriptions, each of which is walked once."""
    alike: dict[frozenset[bytes], int] = {}
    for place, subscribed in enumerate(subscriptions):
        alike[subscribed] = alike.get(subscribed, 0) | 1 << place
    readers: dict[bytes, int] = {}
    for subscribed, bits in alike.items():
        for topic in subscribed:
            readers[topic] = readers.get(topic, 0) | bits
    return readers


def _even_out(
    owners: dict[Partition, int], levels: _Levels, readers: Mapping[bytes, int], topics: Mapping[bytes, int]
) -> None:
    """Move single partitions while that makes two members more alike. Ends: the sum of squares falls with each move."""
    loads = levels.loads
    has_moved = True
    while has_moved:
        has_moved = False
        for topic in sorted(readers):
            # A move leaves its former owner above the level that was least, so the least level of a topic never falls.
            level = 0
            for index in range(topics.get(topic, 0)):
                owner = owners[topic, index]
                level, least = levels.least(readers[topic], level)
                # A difference of one stays: moving the partition would only swap the two loads, for ever.
                if loads[owner] - level >= 2:
                    owners[topic, index] = least
                    levels.change(owner, -1)
                    levels.change(least, 1)
                    has_moved = True


def _partitions_of(subscribed: Iterable[bytes], topics: Mapping[bytes, int]) -> list[Partition]:
    return [(topic, index) for topic in sorted(subscribed) for index in range(topics.get(topic, 0))]


def _frozen(shares: Mapping[str, set[Partition]]) -> Assignment:
    return {member_id: frozenset(share) for member_id, share in shares.items()}
