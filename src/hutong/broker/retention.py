"""Old records go: every so often each partition group is told how long and how much its logs keep.

Strategy: one timer for the node. The journal decides which bytes are dead; this room only knows each topic's wish. A
compacted topic wishes nothing: its records go by key, not by age.

Knows nothing of segments.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hutong.journal.retention import RetentionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.topics import Topics
    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.journal.journal import Journal


class Retention:
    """Applies the topics' retention each `interval_ms`, from `start` to `stop`."""

    def __init__(
        self, topics: Topics, journals: Mapping[str, Journal], wheel: TimerWheel, clock: Clock, interval_ms: int
    ) -> None:
        self._topics = topics
        self._journals = journals
        self._wheel = wheel
        self._clock = clock
        self._interval_ms = interval_ms
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._wheel.add(self._clock.monotonic_ms() + self._interval_ms, self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def apply(self) -> None:
        """Tell every partition group what its logs keep. Those without a wish still drop what is dead already."""
        policies: dict[str, dict[int, RetentionPolicy]] = defaultdict(dict)
        for topic in self._topics.all():
            if topic.is_internal or topic.config.compacted_only:
                continue
            policy = RetentionPolicy(topic.config.retention_ms, topic.config.retention_bytes)
            policies[topic.group].update(dict.fromkeys(topic.log_ids, policy))
        for group, journal in self._journals.items():
            journal.enforce_retention(policies.get(group, {}))

    def _run(self) -> None:
        self.apply()
        self.start()
