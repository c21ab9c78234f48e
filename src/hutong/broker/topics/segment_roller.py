"""Segments are closed soon after they have grown old for a topic that writes to them (`segment.ms`).

Strategy: Kafka checks at each append. Here appends are too many and segments too few for that: a timer is set to the
moment when the active segment of a partition group can first be too old for any of its topics. Before that nothing can
be due. From then on, while the segment continues without records of such a topic, there is a check every
`CHECK_INTERVAL_MS`. With the usual settings, a week, the timer is days ahead, so an idle node sleeps.

Decides nothing of what is removed: that is `retention`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.topics.retention import retention_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.journal.clean.retention import RetentionPolicy
    from hutong.journal.journal import Journal

CHECK_INTERVAL_MS: Final = 5_000


class SegmentRoller:
    """Closes segments that are old, from `start` to `stop`."""

    def __init__(self, topics: Topics, journals: Mapping[str, Journal], wheel: TimerWheel, clock: Clock) -> None:
        self._topics = topics
        self._journals = journals
        self._wheel = wheel
        self._clock = clock
        self._version = -1  # of the topics, when the next two were worked out
        self._policies: dict[str, dict[int, RetentionPolicy]] = {}  # by partition group
        self._shortest_ms: dict[str, int] = {}  # the least age of a segment that any topic of the group wants
        self._timer: Timer | None = None
        self._timer_at_ms = 0

    def start(self) -> None:
        """Check now, and again when something is due."""
        self._topics.on_change.append(self._topic_changed)
        self._check()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._topic_changed in self._topics.on_change:
            self._topics.on_change.remove(self._topic_changed)

    @property
    def due_in_ms(self) -> int | None:
        """The time of the next check; None if none is needed."""
        return None if self._timer is None else self._timer_at_ms - self._clock.monotonic_ms()

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        """Check again: a topic may want its segments closed earlier than the timer is set to."""
        if exists and not topic.is_internal:
            roll_ms = retention_policy(topic.config).roll_ms
            if roll_ms >= 0:
                ages_ms = (self._journals[group].active_age_ms or 0 for group, _ in topic.groups())
                self._check_in(max(CHECK_INTERVAL_MS, roll_ms - max(ages_ms, default=0)))

    def _check(self) -> None:
        self._timer = None
        self._refresh()
        for group, shortest_ms in self._shortest_ms.items():
            journal = self._journals[group]
            age_ms = journal.active_age_ms
            if age_ms is not None and age_ms >= shortest_ms:
                journal.roll_if_full(self._policies[group])
            self._check_in(max(CHECK_INTERVAL_MS, shortest_ms - (journal.active_age_ms or 0)))

    def _check_in(self, delay_ms: int) -> None:
        """Check after this time, or earlier if that is planned already."""
        at_ms = self._clock.monotonic_ms() + delay_ms
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._wheel.add(at_ms, self._check)

    def _refresh(self) -> None:
        """Compute the limits of all topics again if any topic has changed."""
        # No topic has changed since, so the limits are those of the last time.
        if self._version == self._topics.version:
            return
        self._version = self._topics.version
        self._policies, self._shortest_ms = {}, {}
        for topic in self._topics.newest_last():
            policy = retention_policy(topic.config)
            if topic.is_internal or policy.roll_ms < 0:
                continue
            for group, log_ids in topic.groups():
                self._policies.setdefault(group, {}).update(dict.fromkeys(log_ids, policy))
                self._shortest_ms[group] = min(self._shortest_ms.get(group, policy.roll_ms), policy.roll_ms)
