"""Periodic retention: hand each partition group its logs' retention limits and cleaning policies.

Strategy: two timers for the node, and that of `segment_roller`. At each check the journals get their topics'
limits; they decide which bytes are dead and which keys were overwritten. A topic that is only compacted, or neither,
limits neither age nor size. So that what is old can go, the segment that a topic writes to is closed when the topic's
settings say so, and no later than its records would have gone.

Knows nothing of segments.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.retention import RetentionPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.topic_config import TopicConfig
    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.journal.journal import Journal


def retention_policy(config: TopicConfig) -> RetentionPolicy:
    """The retention policy that a topic's settings ask for."""
    roll_ms = config.segment_ms
    # max.compaction.lag.ms bounds how long a record stays uncleaned, and an open segment is never cleaned (KIP-354).
    if config.compacted:
        roll_ms = min(roll_ms, config.max_compaction_lag_ms)
    # cleanup.policy=compact, or none: age and size delete nothing (KIP-1161).
    if not config.deletes:
        return RetentionPolicy(roll_ms=roll_ms, roll_bytes=config.segment_bytes)
    # A record in an open segment cannot be deleted, so the segment is closed no later than its records expire.
    if config.retention_ms >= 0:
        roll_ms = min(roll_ms, config.retention_ms)
    return RetentionPolicy(config.retention_ms, config.retention_bytes, roll_ms, config.segment_bytes)


def compaction_policy(config: TopicConfig) -> CompactionPolicy:
    """The cleaning policy that a compacted topic's settings ask for."""
    return CompactionPolicy(
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.delete_retention_ms,
        config.min_dirty_ratio,
    )


class _PeriodicCheck:
    """Calls `apply` after each interval, from `start` to `stop`. The interval is asked for after each call."""

    def __init__(
        self,
        topics: Topics,
        journals: Mapping[str, Journal],
        wheel: TimerWheel,
        clock: Clock,
        interval_ms: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._journals = journals
        self._wheel = wheel
        self._clock = clock
        self._interval_ms = interval_ms
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._wheel.add(self._clock.monotonic_ms() + self._interval_ms(), self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def apply(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        self.apply()
        self.start()


class Retention(_PeriodicCheck):
    """The retention of topics, applied each `interval_ms`, from `start` to `stop`."""

    def __init__(
        self, topics: Topics, journals: Mapping[str, Journal], wheel: TimerWheel, clock: Clock, interval_ms: int
    ) -> None:
        super().__init__(topics, journals, wheel, clock, lambda: interval_ms)

    def apply(self) -> None:
        """Give every partition group the limits of its logs. Groups without any still delete dead segments."""
        policies: dict[str, dict[int, RetentionPolicy]] = defaultdict(dict)
        followed: dict[str, dict[int, RetentionPolicy]] = defaultdict(dict)
        for topic in self._topics.all():
            if not topic.is_internal:
                policy = retention_policy(topic.config)
                for group, log_ids in topic.groups():
                    # Only a leader moves a start. Followers learn of it by the stream, and close segments themselves.
                    is_led_here = self._topics.standings[group].is_led_here
                    (policies if is_led_here else followed)[group].update(dict.fromkeys(log_ids, policy))
        for group, journal in self._journals.items():
            journal.roll_if_full(followed.get(group, {}))
            journal.enforce_retention(policies.get(group, {}))


class Compaction(_PeriodicCheck):
    """The cleaning of compacted topics where that is due, with a check each `interval_ms`, from `start` to `stop`.

    `interval_changed` lets a new interval count at once. `report` gets a sentence about each obstacle, once.
    """

    def __init__(
        self,
        topics: Topics,
        journals: Mapping[str, Journal],
        wheel: TimerWheel,
        clock: Clock,
        interval_ms: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(topics, journals, wheel, clock, interval_ms)
        self._report = report
        self._reported: set[str] = set()

    def interval_changed(self) -> None:
        """Count the new interval from now on, if the checks have started."""
        if self._timer is not None:
            self.stop()
            self.start()

    def apply(self) -> None:
        """Close the segments of compacted topics that are old or large enough, then clean what is worth it."""
        rolls: dict[str, dict[int, RetentionPolicy]] = defaultdict(dict)
        policies: dict[str, dict[int, CompactionPolicy]] = defaultdict(dict)
        names: dict[int, str] = {}
        for topic in self._topics.all():
            if topic.config.compacted and not topic.is_internal:
                for group, log_ids in topic.groups():
                    rolls[group].update(dict.fromkeys(log_ids, retention_policy(topic.config)))
                    policies[group].update(dict.fromkeys(log_ids, compaction_policy(topic.config)))
                names.update((log_id, f"{topic.name}-{index}") for index, log_id in enumerate(topic.log_ids))
        for group in policies:
            journal = self._journals[group]
            journal.roll_if_full(rolls[group])
            journal.enforce_compaction(policies[group])
            self._report_problems(group, journal, names)

    def _report_problems(self, group: str, journal: Journal, names: Mapping[int, str]) -> None:
        cleaner = journal.cleaner
        sentences = [
            f"{names.get(log_id, log_id)} is not compacted any further: {problem}"
            for log_id, problem in cleaner.problems.items()
        ]
        if cleaner.last_error is not None:
            sentences.append(f"partition group {group} could not be cleaned: {cleaner.last_error}")
        for sentence in sentences:
            # Each check finds the same obstacle again; the log gets it once.
            if sentence not in self._reported:
                self._reported.add(sentence)
                self._report(sentence)
