"""The journals of a node: recovered side by side, reported to the log when they fail, closed with a clean mark.

Strategy: flushes and disk reads of each partition group have threads of their own, which start when they are needed.
A flush, for which producers wait, must not queue behind a read, and a disk that stalls under one partition group must
not hold up another.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hutong.broker.topics.lifetimes import DATA_GROUPS, STATE_GROUPS, is_state_group
from hutong.foundation.clock import Clock
from hutong.foundation.errors import CorruptData, DiskFull, HutongError, StorageError, StorageShortage
from hutong.journal.append.replicator import Replicator
from hutong.journal.journal import Journal
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.durable_writes import ring_offload
from hutong.runtime.threads.offload import ClosableOffload
from hutong.runtime.threads.precedence import Precedence
from hutong.server.broker.data import open_files
from hutong.server.broker.data.data_dir import DataFolder
from hutong.server.broker.environment import BrokerEnvironment

GROUPS: Final = (*STATE_GROUPS, *DATA_GROUPS)
_REPORT_INTERVAL_MS: Final = 1_000
_log = logging.getLogger("hutong.node")


class NodeJournals:
    """Opens the journals into `sources.journals`. `offload` has the threads for all other work on files."""

    def __init__(self, environment: BrokerEnvironment, groups: Sequence[str] = GROUPS) -> None:
        """`groups` are the names of all partition groups of this node."""
        self._groups = groups
        loop, workers = environment.loop, environment.settings.node.worker_threads
        self._environment = environment
        self._journals = environment.sources.journals
        self._files_max = open_files.limit()
        wanted = JournalSettings().segments_open_max
        self._segments_open_max = open_files.segments_open_max(self._files_max, len(groups), wanted)
        self.device = Precedence(environment.clock, environment.wheel, workers)
        self.offload = environment.ports.make_offload(loop, workers, "hutong-disk")
        self._reads: dict[str, ClosableOffload] = {}
        self._flushes: dict[str, ClosableOffload] = {}
        for group in groups:
            self._add_threads(group)

    def _add_threads(self, group: str) -> None:
        loop, workers = self._environment.loop, self._environment.settings.node.worker_threads
        make_offload = self._environment.ports.make_offload
        self._reads[group] = make_offload(loop, workers, f"hutong-reader-{group}")
        threads = make_offload(loop, 1, f"hutong-flush-{group}")
        # A kernel's fault in io_uring must not stop a node: threads alone do the same.
        self._flushes[group] = ring_offload(loop, threads) if self._environment.settings.log.io_uring else threads

    async def open(self, data_dir: DataFolder, deletion_ms: Callable[[], int]) -> None:
        """Recover every partition group. Raises CorruptData for a group without which no answer would be right."""
        opened = await asyncio.gather(
            *(self.open_journal(data_dir, group, deletion_ms) for group in self._groups), return_exceptions=True
        )
        # First all that were opened, so that `close` finds them where one of the others raises below.
        for group, journal in zip(self._groups, opened, strict=True):
            if isinstance(journal, Journal):
                self._journals[group] = journal
        for group, journal in zip(self._groups, opened, strict=True):
            if isinstance(journal, CorruptData):
                error = CorruptData(f"{journal}; `hutong doctor {data_dir.path}` says what can be done")
                # Without topics, offsets or transactions a node would give wrong answers; without records, none.
                if is_state_group(group):
                    raise error from journal
                self._journals[group] = self._offline_journal(group, error, data_dir)
            elif isinstance(journal, BaseException):
                raise journal

    async def close(self) -> None:
        """Close all journals, then the threads that read and flush them."""
        await self.close_journals()
        self.close_threads()

    async def close_journals(self) -> None:
        for group, journal in self._journals.items():
            try:
                await journal.close()
            except StorageError as error:
                _log.error("partition group %s was not closed cleanly: %s", group, error)

    def close_threads(self) -> None:
        """End the threads; no journal is open any more."""
        self.offload.close()
        for flushes in self._flushes.values():
            flushes.close()
        for reads in self._reads.values():
            reads.close()

    def add_group(self, group: str, data_dir: DataFolder) -> None:
        """Make all that the journal of a new partition group needs, and a stand-in until it is opened."""
        from hutong.journal.offline import AwaitedJournal  # late: no start needs it

        self._add_threads(group)
        environment, reason = self._environment, StorageError(f"the partition group {group} is being made")
        settings, call_soon = self.settings_of(group), environment.loop.call_soon
        path = data_dir.group_path(group)
        self._journals[group] = AwaitedJournal(reason, path, environment.clock, environment.wheel, settings, call_soon)

    def remove_group(self, group: str) -> None:
        """End the threads of a partition group whose journal is closed for good."""
        self._flushes.pop(group).close()
        self._reads.pop(group).close()

    def settings_of(self, group: str) -> JournalSettings:
        """The settings that the journal of a partition group starts with."""
        environment = self._environment
        return environment.ports.journal_settings(environment.settings, group, self._segments_open_max)

    def connections_max(self) -> int:
        """The number of connections that leaves the journals enough open files."""
        return open_files.connections_max(
            self._files_max, open_files.open_now(), len(self._groups), self._segments_open_max
        )

    def _offline_journal(self, group: str, error: CorruptData, data_dir: DataFolder) -> Journal:
        """The stand-in for a corrupt partition group: it refuses, and all other groups are served."""
        _log.critical(
            "partition group %s is offline, all its partitions answer KAFKA_STORAGE_ERROR, and all others are served: "
            "%s.",
            group,
            error,
        )
        from hutong.journal.offline import OfflineJournal  # late: no start needs it but one with damage

        environment, path = self._environment, data_dir.group_path(group)
        call_soon = environment.loop.call_soon
        return OfflineJournal(error, path, environment.clock, environment.wheel, self.settings_of(group), call_soon)

    async def open_journal(
        self,
        data_dir: DataFolder,
        group: str,
        deletion_ms: Callable[[], int],
        replicator: Replicator | None = None,
        refusal: HutongError | None = None,
        node: int | None = None,
    ) -> Journal:
        """Open one. With a `replicator` it is one of several replicas, and refuses appends until it leads."""
        journal = await Journal.open(
            data_dir.group_path(group),
            disk=self._environment.ports.disk,
            offload=self.offload,
            read_offload=self.device.behind(self._reads[group]),
            flush_offload=self.device.first(self._flushes[group]),
            clock=self._environment.clock,
            timers=self._environment.wheel,
            settings=self.settings_of(group),
            deletion_ms=deletion_ms,
            replicator=replicator,
            refusal=refusal,
            node=node,
        )
        # A replica that steps down is opened anew without a clean end, which is no news.
        level = logging.DEBUG if group in self._journals else logging.WARNING
        for sentence in journal.recovery.sentences():
            _log.log(level, "%s", sentence)
        journal.on_failure(
            lambda error: _log.critical(
                "partition group %s has failed for good: %s; it takes no more records until the node is started again "
                "on a sound disk, what was acknowledged can still be read.",
                group,
                error,
            )
        )
        journal.on_shortage(_shortage_reporter(group))
        journal.reader.failures.on_failure = _read_failure_reporter(group, self._environment.clock)
        return journal


def _shortage_reporter(group: str) -> Callable[[StorageShortage | None], None]:
    """A callback that logs a shortage of the group, and its end."""
    what = ""

    def report(error: StorageShortage | None) -> None:
        nonlocal what
        if error is None:
            _log.warning("partition group %s has %s again and takes records.", group, what)
            return
        what = "space" if isinstance(error, DiskFull) else "open files and memory"
        _log.error("partition group %s: %s; it refuses records until there is %s, and reads go on.", group, error, what)

    return report


def _read_failure_reporter(group: str, clock: Clock) -> Callable[[StorageError], None]:
    """A callback that logs failed reads, one line at most in each interval, because clients retry at once."""
    reported_at_ms, unreported = -_REPORT_INTERVAL_MS, 0

    def report(error: StorageError) -> None:
        nonlocal reported_at_ms, unreported
        now_ms = clock.monotonic_ms()
        if now_ms - reported_at_ms < _REPORT_INTERVAL_MS:
            unreported += 1
            return
        _log.error(
            "partition group %s: %s; its readers are answered KAFKA_STORAGE_ERROR there, and all else goes on "
            "(%d more like it before).",
            group,
            error,
            unreported,
        )
        reported_at_ms, unreported = now_ms, 0

    return report
