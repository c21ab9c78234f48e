"""Who shall read which partition: the assignors that run here instead of in a client.

Strategy: pure functions from what is there (members with their subscriptions and what they had, topics with their
partition counts) to what shall be. Members are taken in a fixed order, so that the same question has the same answer.

`uniform` spreads partitions as evenly as subscriptions allow and moves as few as that takes. `range` gives each member
a run of neighbouring partitions, the same run of every topic of a size: who joins two such topics finds the same keys
in one place.

Knows nothing of epochs, of time, or of how members get from what they have to what they shall have.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
    """Evenly and sticky. `topics` tells how many partitions each has; every member gets an entry."""
    if not members:
        return {}
    if len({member.topics for member in members.values()}) == 1:
        return _uniform_alike(members, topics)
    return _uniform_mixed(members, topics)


def range_(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """Runs of neighbouring partitions, topic by topic."""
    shares: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    order = sorted(members, key=lambda member_id: (members[member_id].instance_id or member_id, member_id))
    readers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic in members[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    for topic, readers_here in readers.items():
        start, (quota, extra) = 0, divmod(topics.get(topic, 0), len(readers_here))
        for place, member_id in enumerate(readers_here):
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
        has_extra = len(kept) > quota and extra > 0
        extra -= has_extra
        shares[member_id] = set(kept[: quota + has_extra])
        for partition in shares[member_id]:
            del unassigned[partition]
    rest = iter(unassigned)
    for share in shares.values():
        while len(share) < quota:
            share.add(next(rest))
    for share, partition in zip((share for share in shares.values() if len(share) == quota), rest, strict=False):
        share.add(partition)
    return _frozen(shares)


def _uniform_mixed(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Assignment:
    """Subscriptions differ: keep what may be kept, give the rest to whoever has least, then even out."""
    readers: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic in members[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    partitions = _partitions_of(readers, topics)
    owners: dict[Partition, str] = {}
    for member_id in sorted(members):
        for partition in members[member_id].previous:
            if partition[0] in members[member_id].topics and partition[1] < topics.get(partition[0], 0):
                owners.setdefault(partition, member_id)
    loads = Counter(owners.values())
    # Those with the fewest readers first: the others have more choice.
    for partition in sorted(partitions, key=lambda partition: (len(readers[partition[0]]), partition)):
        if partition not in owners:
            member_id = min(readers[partition[0]], key=lambda reader: (loads[reader], reader))
            owners[partition] = member_id
            loads[member_id] += 1
    _even_out(owners, loads, readers, partitions)
    shares: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    for partition, member_id in owners.items():
        shares[member_id].add(partition)
    return _frozen(shares)


def _even_out(
    owners: dict[Partition, str],
    loads: Counter[str],
    readers: Mapping[bytes, list[str]],
    partitions: Iterable[Partition],
) -> None:
    """Move single partitions while that makes two members more alike. Ends: the sum of squares falls with each move."""
    has_moved = True
    while has_moved:
        has_moved = False
        for partition in partitions:
            owner = owners[partition]
            least = min(readers[partition[0]], key=lambda reader: (loads[reader], reader))
            if loads[owner] - loads[least] >= 2:
                owners[partition] = least
                loads[owner] -= 1
                loads[least] += 1
                has_moved = True


def _partitions_of(subscribed: Iterable[bytes], topics: Mapping[bytes, int]) -> list[Partition]:
    return [(topic, index) for topic in sorted(subscribed) for index in range(topics.get(topic, 0))]


def _frozen(shares: Mapping[str, set[Partition]]) -> Assignment:
    return {member_id: frozenset(share) for member_id, share in shares.items()}
