"""Subscriptions of one group: its members' topic names and patterns, and the topics that match now.

Strategy: names and patterns are counted, so that a change costs what it names and not what the group has. `refresh`
looks up what they stand for now; the group begins a new epoch where that differs. A hash of it is stored with the
group, so that a restart notices what changed meanwhile.

Knows nothing of members' epochs or partitions.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

from hutong.groups.consumer.assignment.catalogue import TopicCatalogue

Subscription: TypeAlias = tuple[frozenset[str], str | None]
"""Topic names and, or, a pattern."""


class Subscriptions:
    """Of all members of one group. `topics` (id -> partition count) is what the last `refresh` found."""

    __slots__ = ("_believed", "_catalogue", "_names", "_patterns", "topics")

    def __init__(self, catalogue: TopicCatalogue) -> None:
        self.topics: dict[bytes, int] = {}
        self._catalogue = catalogue
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._believed: int | None = None  # the hash of what was read before a restart, until the first refresh

    def replace(self, old: Subscription, new: Subscription) -> None:
        """One member subscribes otherwise. Raises Refused for a pattern that is none, before anything changes."""
        if new[1] is not None:
            self._catalogue.hold(new[1])
            self._patterns[new[1]] += 1
        if old[1] is not None:
            self._catalogue.release(old[1])
            self._count_down(self._patterns, old[1])
        for name in new[0] - old[0]:
            self._names[name] += 1
        for name in old[0] - new[0]:
            self._count_down(self._names, name)

    def believe(self, metadata_hash: int) -> None:
        """Take it that `topics` had this hash when the group was stored."""
        self._believed = metadata_hash

    @property
    def is_ready(self) -> bool:
        """Return True if all patterns were matched: before that the topics of their members are unknown."""
        return all(map(self._catalogue.is_ready, self._patterns))

    @property
    def pattern_count(self) -> int:
        return len(self._patterns)

    def holds(self, pattern: str) -> bool:
        """Return True if a member subscribes by this pattern."""
        return pattern in self._patterns

    def refresh(self) -> bool:
        """Look up what the names and patterns stand for now; True if that has changed."""
        if not self.is_ready:
            return False
        names = set(self._names)
        for pattern in self._patterns:
            names.update(self._catalogue.matching(pattern))
        found = (self._catalogue.get(name) for name in names)
        topics = {topic.topic_id: topic.partition_count for topic in found if topic is not None}
        before, self.topics = self.topics, topics
        believed, self._believed = self._believed, None
        return before != topics if believed is None else believed != self.metadata_hash

    def reads(self, name: str) -> bool:
        """Return True if a member subscribes to this topic, by name or by a pattern."""
        return name in self._names or any(name in self._catalogue.matching(pattern) for pattern in self._patterns)

    @property
    def metadata_hash(self) -> int:
        """Of the topics and how many partitions they have."""
        digest = blake2b(digest_size=8)
        for topic_id in sorted(self.topics):
            digest.update(topic_id + self.topics[topic_id].to_bytes(4, "big"))
        return int.from_bytes(digest.digest(), "big", signed=True)

    @property
    def names(self) -> frozenset[str]:
        """Every topic that somebody subscribes to, whether it is there or not."""
        return frozenset(self._names).union(*(self._catalogue.matching(pattern) for pattern in self._patterns))

    def topic_ids(self, names: frozenset[str], pattern: str | None) -> frozenset[bytes]:
        """The topics that one member reads."""
        matched = self._catalogue.matching(pattern) if pattern is not None else ()
        found = (self._catalogue.get(name) for name in names.union(matched))
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def check_invariants(self, subscriptions: Iterable[Subscription]) -> None:
        each = list(subscriptions)
        assert self._names == Counter(name for names, _ in each for name in names)
        assert self._patterns == Counter(pattern for _, pattern in each if pattern is not None)

    @staticmethod
    def _count_down(counter: Counter[str], name: str) -> None:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]
