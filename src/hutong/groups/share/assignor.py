"""Which member of a share group looks at which partitions: all are covered, and the load is even.

Strategy: topics with the same subscribers are one pool. In a pool each member gets as many partitions as every other,
`ceil(partitions / members)`: with more members than partitions several share one, which is what share groups are for.
What a member had it keeps where that fits, because a move costs the locks of what was being worked on; then the least
looked-at partitions are filled up, and what nobody looks at replaces what most do.

Pure.
"""

from collections import Counter
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
    pools: dict[tuple[str, ...], list[TopicPartition]] = {}
    for topic, count in partition_counts.items():
        members = tuple(sorted(member for member, topics in subscriptions.items() if topic in topics))
        pools.setdefault(members, []).extend((topic, index) for index in range(count))
    result: Assignment = {member: set() for member in subscriptions}
    for members, partitions in pools.items():
        if members:
            _share_out(members, partitions, before, result)
    return result


def _share_out(
    members: Sequence[str],
    partitions: Sequence[TopicPartition],
    before: Mapping[str, Iterable[TopicPartition]],
    result: Assignment,
) -> None:
    quota = -(-len(partitions) // len(members))
    sharers_max = -(-quota * len(members) // len(partitions)) if partitions else 0
    pool = set(partitions)
    shares: dict[str, set[TopicPartition]] = {member: set() for member in members}
    sharers: Counter[TopicPartition] = Counter(dict.fromkeys(partitions, 0))
    for member in members:
        for partition in sorted(pool.intersection(before.get(member, ()))):
            if len(shares[member]) < quota and sharers[partition] < sharers_max:
                shares[member].add(partition)
                sharers[partition] += 1
    for member in members:
        for partition in sorted(pool - shares[member], key=lambda each: (sharers[each], each)):
            if len(shares[member]) >= quota:
                break
            shares[member].add(partition)
            sharers[partition] += 1
    _cover(shares, sharers)
    for member in members:
        result[member] |= shares[member]


def _cover(shares: Mapping[str, set[TopicPartition]], sharers: Counter[TopicPartition]) -> None:
    """What nobody looks at replaces what most do."""
    for partition in [partition for partition, count in sharers.items() if not count]:
        _, crowded, member = max(
            (sharers[each], each, member) for member, share in sorted(shares.items()) for each in share
        )
        shares[member].remove(crowded)
        shares[member].add(partition)
        sharers[crowded] -= 1
        sharers[partition] += 1
