"""The periodic work of a broker: retention, compaction, segments closed by age, and the deletion clock.

Decides nothing.
"""

import logging
from typing import Final

from hutong.broker.configs.cleaner_configs import altered_journal_settings, cleaner_backoff_ms
from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.lifetimes import is_state_group
from hutong.broker.topics.retention import Compaction, Retention
from hutong.broker.topics.segment_roller import SegmentRoller
from hutong.foundation.deletion_clock import DeletionClock
from hutong.foundation.timers import Timer
from hutong.server.broker.data.data_dir import DataFolder
from hutong.server.broker.data.journals import NodeJournals
from hutong.server.broker.environment import BrokerEnvironment

_NOTE_TIME_INTERVAL_MS: Final = 60_000
_log = logging.getLogger("hutong.node")


class Upkeep:
    """`deletion_clock` runs from the start; `start` begins the rest once the topics are known."""

    def __init__(self, environment: BrokerEnvironment, data_dir: DataFolder) -> None:
        self._environment = environment
        self._data_dir = data_dir
        hold_ms = environment.settings.log.clock_jump_hold_ms
        known_ms = data_dir.last_used_ms
        self.deletion_clock = DeletionClock(environment.clock, hold_ms=hold_ms, known_ms=known_ms, notify=_warn)
        environment.sources.deletion_clock = self.deletion_clock
        self._retention: Retention | None = None
        self._compaction: Compaction | None = None
        self._roller: SegmentRoller | None = None
        self._backoff_ms = 0  # between two checks for logs to clean
        self._note_time()

    def start(self, topics: Topics, configs: NodeConfigs) -> None:
        """Begin to delete, compact and roll."""
        settings, clock, wheel = self._environment.settings.log, self._environment.clock, self._environment.wheel
        journals = self._environment.sources.journals
        self._retention = Retention(topics, journals, wheel, clock, settings.retention_check_interval_ms)
        self._retention.start()
        if settings.cleaner_enable:
            self._backoff_ms = cleaner_backoff_ms(configs)
            self._compaction = Compaction(topics, journals, wheel, clock, lambda: cleaner_backoff_ms(configs), _warn)
            self._compaction.start()
        self._roller = SegmentRoller(topics, journals, wheel, clock)
        self._roller.start()

    def configs_changed(self, configs: NodeConfigs, journals: NodeJournals) -> None:
        """Apply altered settings of journals and of cleaning."""
        for group, journal in self._environment.sources.journals.items():
            if not is_state_group(group):
                journal.alter_settings(altered_journal_settings(journals.settings_of(group), configs))
        backoff_ms = cleaner_backoff_ms(configs)
        # A check that waits for an hour must not finish its hour after the interval was lowered to a second.
        if self._compaction is not None and backoff_ms != self._backoff_ms:
            self._backoff_ms = backoff_ms
            self._compaction.interval_changed()

    def stop(self) -> None:
        """Stop all of it, and note the time of this use of the folder."""
        for work in (self._retention, self._compaction, self._roller):
            if work is not None:
                work.stop()
        self._time_noted.cancel()
        self._data_dir.note_use(self.deletion_clock.now_ms())

    def _note_time(self) -> None:
        """Note the time in the folder every minute, so that a jump of the clock is noticed, also at the next start."""
        self._data_dir.note_use(self.deletion_clock.now_ms())
        due_ms = self._environment.clock.monotonic_ms() + _NOTE_TIME_INTERVAL_MS
        self._time_noted: Timer = self._environment.wheel.add(due_ms, self._note_time)


def _warn(sentence: str) -> None:
    _log.warning("%s", sentence)
