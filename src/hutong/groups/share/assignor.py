"""The assignor of share groups: every partition has a member, and the load is even.

Strategy: topics with the same subscribers are one pool. In a pool each member gets as many partitions as every other,
`ceil(partitions / members)`: with more members than partitions several share one, which is what share groups are for.
What a member had it keeps where that fits, because a move costs the locks of what was being worked on; then the least
looked-at partitions are filled up, and what nobody looks at replaces what most do.

Pure.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

NAME: Final = "simple"
TopicPartition: TypeAlias = tuple[bytes, int]
"""A topic by its id: one that was deleted and made again is another topic."""
Assignment: TypeAlias = dict[str, set[TopicPartition]]


def assign(
    subscriptions: Mapping[str, Collection[bytes]],
    partition_counts: Mapping[bytes, int],
    before: Mapping[str, Iterable[TopicPartition]],
) -> Assignment:
    """The partitions of each member. `partition_counts` has the topics that exist, in the order of their names."""
    readers: dict[bytes, list[str]] = {}
    for member in sorted(subscriptions):
        for topic in subscriptions[member]:
            readers.setdefault(topic, []).append(member)
    pools: dict[tuple[str, ...], list[TopicPartition]] = {}
    for topic, count in partition_counts.items():
        if topic in readers:
            pools.setdefault(tuple(readers[topic]), []).extend((topic, index) for index in range(count))
    result: Assignment = {member: set() for member in subscriptions}
    for members, partitions in pools.items():
        _share_out(members, partitions, before, result)
    return result


def _share_out(
    members: Sequence[str],
    partitions: Sequence[TopicPartition],
    before: Mapping[str, Iterable[TopicPartition]],
    result: Assignment,
) -> None:
    """Share out one pool. It costs what members and partitions are together, not their product."""
    quota = -(-len(partitions) // len(members))
    # Without this bound former assignments could keep many members on a few partitions.
    sharers_max = -(-quota * len(members) // len(partitions)) if partitions else 0
    shares: dict[str, set[TopicPartition]] = {member: set() for member in members}
    sharers: Counter[TopicPartition] = Counter(dict.fromkeys(partitions, 0))
    for member in members:
        for partition in sorted(partition for partition in before.get(member, ()) if partition in sharers):
            if len(shares[member]) < quota and sharers[partition] < sharers_max:
                shares[member].add(partition)
                sharers[partition] += 1
    _fill(shares, sharers, quota)
    _cover(shares, sharers)
    for member in members:
        result[member] |= shares[member]


def _fill(shares: Mapping[str, set[TopicPartition]], sharers: Counter[TopicPartition], quota: int) -> None:
    """Fill every share up to the quota, with the least looked-at partitions first."""
    by_sharers: list[deque[TopicPartition]] = [deque() for _ in range(max(sharers.values(), default=0) + 1)]
    for partition, count in sorted(sharers.items()):
        by_sharers[count].append(partition)
    for share in shares.values():
        own: list[tuple[int, TopicPartition]] = []  # what it has already, to be put back
        count = 0
        while len(share) < quota and count < len(by_sharers):
            if not by_sharers[count]:
                count += 1
                continue
            partition = by_sharers[count].popleft()
            # Put aside: this member has the partition already, but the next ones may not.
            if partition in share:
                own.append((count, partition))
                continue
            share.add(partition)
            sharers[partition] += 1
            if count + 1 == len(by_sharers):
                by_sharers.append(deque())
            by_sharers[count + 1].append(partition)
        for kept_count, partition in own:
            by_sharers[kept_count].append(partition)


def _cover(shares: Mapping[str, set[TopicPartition]], sharers: Counter[TopicPartition]) -> None:
    """Partitions that nobody looks at replace those that most do."""
    uncovered = [partition for partition, count in sharers.items() if not count]
    if not uncovered:
        return
    crowded = sorted(
        (-sharers[partition], partition, member) for member, share in shares.items() for partition in share
    )
    donors = iter(crowded)
    for partition in uncovered:
        for _, donated, member in donors:
            # The donated partition must keep a member, or it would be the next without one.
            if sharers[donated] > 1:
                shares[member].remove(donated)
                shares[member].add(partition)
                sharers[donated] -= 1
                sharers[partition] += 1
                break
