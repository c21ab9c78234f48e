"""The topics as consumer groups see them: by name, by id and by pattern.

Strategy: a pattern (RE2, matched against the whole name, KIP-848) is compiled when the first member that subscribes to
it comes and looked through all names once; from then on each topic that comes or goes is matched against the patterns
that are held, so that no change of topics costs more than that. RE2 takes time linear in the name whatever the pattern.

Internal topics are matched by no pattern: nobody means them by `.*`. They can be subscribed to by name.

Knows nothing of groups.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    topic_id: bytes
    partition_count: int
    is_internal: bool = False


@dataclass(slots=True)
class _Pattern:
    """One pattern that members subscribe to; `matched` follows the topics."""

    compiled: Any
    matched: set[str]
    holder_count: int = 0

    def takes(self, topic: TopicFacts) -> bool:
        return not topic.is_internal and self.compiled.fullmatch(topic.name) is not None


class Catalogue:
    """Every topic of this node, and the patterns that are in use."""

    def __init__(self) -> None:
        self._by_name: dict[str, TopicFacts] = {}
        self._by_id: dict[bytes, TopicFacts] = {}
        self._patterns: dict[str, _Pattern] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    # ---- topics

    def put(self, topic: TopicFacts) -> bool:
        """A topic is there, or has changed. False if it was there just so."""
        before = self._by_name.get(topic.name)
        if before == topic:
            return False
        if before is not None:
            self._by_id.pop(before.topic_id, None)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        for pattern in self._patterns.values():
            if pattern.takes(topic):
                pattern.matched.add(topic.name)
        return True

    def remove(self, name: str) -> bool:
        """A topic is gone. False if it was not there."""
        topic = self._by_name.pop(name, None)
        if topic is None:
            return False
        self._by_id.pop(topic.topic_id, None)
        for pattern in self._patterns.values():
            pattern.matched.discard(name)
        return True

    def get(self, name: str) -> TopicFacts | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        return self._by_id.get(topic_id)

    # ---- patterns

    def matching(self, regex: str) -> Collection[str]:
        """The names that a held pattern matches; none if nobody holds it."""
        pattern = self._patterns.get(regex)
        return pattern.matched if pattern is not None else ()

    def check(self, regex: str) -> None:
        """Raises Refused(INVALID_REGULAR_EXPRESSION)."""
        if regex not in self._patterns:
            _compile(regex)

    def hold(self, regex: str) -> None:
        """One more wants to know what this pattern matches. Raises Refused(INVALID_REGULAR_EXPRESSION)."""
        pattern = self._patterns.get(regex)
        if pattern is None:
            pattern = _Pattern(_compile(regex), set())
            pattern.matched.update(topic.name for topic in self._by_name.values() if pattern.takes(topic))
            self._patterns[regex] = pattern
        pattern.holder_count += 1

    def release(self, regex: str) -> None:
        pattern = self._patterns.get(regex)
        if pattern is None:
            return
        pattern.holder_count -= 1
        if not pattern.holder_count:
            del self._patterns[regex]


def _compile(regex: str) -> Any:
    import re2  # few groups use patterns, and every start would pay for it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {text[:200]}.",
        ) from error
