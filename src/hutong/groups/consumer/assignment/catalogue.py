"""The topics as consumer groups see them: by name, by id and by pattern.

Strategy: a pattern (RE2, matched against the whole name, KIP-848) is compiled when the first member that subscribes to
it comes and matched against all names once; from then on each topic that comes or goes is matched against the patterns
that are held, so that no change of topics costs more than that. RE2 takes time linear in the name and in the pattern's
program; with many names and a large program that is minutes. So matching goes in stretches of `STRETCH_UNITS`: one at
once, which is enough for thousands of names and usual patterns, others when the driver says so (`work`). Until a new
pattern was matched against all names it is not ready. Kafka too resolves patterns aside, and members wait for it.

Internal topics are matched by no pattern, since `.*` is not meant for them. They can be subscribed to by name.

Knows nothing of groups.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    topic_id: bytes
    partition_count: int
    is_internal: bool = False


STRETCH_UNITS: Final = 2_000_000  # about 10 ms at worst: a unit is a step of a program over a character
_CALL_UNITS: Final = 1_000  # of each match, in addition to its characters
_PATTERN_MEMORY_BYTES: Final = 256 * 1024  # of RE2 for one pattern; a larger one is refused


@dataclass(slots=True)
class _Pattern:
    """One pattern that members subscribe to; `matched` follows the topics."""

    compiled: Any
    matched: set[str] = field(default_factory=set)
    waiting: deque[str] = field(default_factory=deque)  # names that it was not matched against yet
    is_ready: bool = False
    holder_count: int = 0

    def units(self, name: str) -> int:
        """About what a match costs."""
        return _CALL_UNITS + int(self.compiled.programsize) * len(name)

    def takes(self, topic: TopicFacts) -> bool:
        return not topic.is_internal and self.compiled.fullmatch(topic.name) is not None


class TopicCatalogue:
    """Every topic of this node, and the patterns that are in use."""

    def __init__(self) -> None:
        self._by_name: dict[str, TopicFacts] = {}
        self._by_id: dict[bytes, TopicFacts] = {}
        self._patterns: dict[str, _Pattern] = {}
        self._unfinished: dict[str, None] = {}  # patterns with names that wait, in turn

    def __len__(self) -> int:
        return len(self._by_name)

    # ---- topics

    def put(self, topic: TopicFacts) -> bool:
        """A topic is there, or has changed. False if it was there just so."""
        before = self._by_name.get(topic.name)
        if before == topic:
            return False
        if before is not None:
            # A topic that was deleted and made again has another id.
            self._by_id.pop(before.topic_id, None)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        units_left = STRETCH_UNITS
        for regex, pattern in self._patterns.items():
            units_left -= pattern.units(topic.name)
            # One change of a topic costs no more than a stretch; a pattern with a queue has it matched in turn.
            if units_left < 0 or pattern.waiting:
                pattern.waiting.append(topic.name)
                self._unfinished[regex] = None
            elif pattern.takes(topic):
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
        """The names that a held pattern matches; none if nobody holds it, or if it is not ready."""
        pattern = self._patterns.get(regex)
        return pattern.matched if pattern is not None and pattern.is_ready else ()

    def is_ready(self, regex: str) -> bool:
        """Return True if a held pattern was matched against all names that existed when it was added."""
        pattern = self._patterns.get(regex)
        return pattern is None or pattern.is_ready

    @property
    def has_work(self) -> bool:
        """Return True if names wait to be matched."""
        return bool(self._unfinished)

    def work(self) -> str | None:
        """Match one stretch of names. Return the pattern if none waits for it any more: its groups may be concerned."""
        regex = next(iter(self._unfinished), None)
        if regex is None:
            return None
        del self._unfinished[regex]
        if self._stretch(self._patterns[regex]):
            return regex
        self._unfinished[regex] = None  # behind the others
        return None

    def _stretch(self, pattern: _Pattern) -> bool:
        """Match names until the stretch is over, at least one. True if none waits any more."""
        units_left = STRETCH_UNITS
        while pattern.waiting and units_left > 0:
            topic = self._by_name.get(pattern.waiting.popleft())
            if topic is not None:
                units_left -= pattern.units(topic.name)
                if pattern.takes(topic):
                    pattern.matched.add(topic.name)
        pattern.is_ready |= not pattern.waiting
        return not pattern.waiting

    def check(self, regex: str) -> None:
        """Raises Refused(INVALID_REGULAR_EXPRESSION)."""
        if regex not in self._patterns:
            _compile(regex)

    def hold(self, regex: str) -> None:
        """Count one more holder of the pattern. Raises Refused(INVALID_REGULAR_EXPRESSION)."""
        pattern = self._patterns.get(regex)
        if pattern is None:
            pattern = self._patterns[regex] = _Pattern(_compile(regex), waiting=deque(self._by_name))
            if not self._stretch(pattern):
                self._unfinished[regex] = None
        pattern.holder_count += 1

    def release(self, regex: str) -> None:
        pattern = self._patterns.get(regex)
        if pattern is None:
            return
        pattern.holder_count -= 1
        if not pattern.holder_count:
            del self._patterns[regex]
            self._unfinished.pop(regex, None)


def _compile(regex: str) -> Any:
    import re2  # few groups use patterns, and every start would pay for it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_BYTES
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {text[:200]}.",
        ) from error
