"""Reads of what is no longer in memory, for all connections in fair turns.

Strategy: each connection is an actor, each partition that it asks for a message, so a reader of a long backlog has one
turn when everybody else had one, and answers of many readers never fill one turn of the loop. In its turn a read takes
what the machine holds in its page cache, which never blocks; what it does not hold is brought by a worker while others
have their turns. The bytes that are on their way together are bounded, as is the time that a read may wait.

Each read is small while somebody waits for a flush: the flush waits for the read before it, and its answer for the
loop that sends what was read. Otherwise a read is as large as clients ask for.

Each journal has a queue of its own: one whose disk stalls keeps what was begun for it, and others go on.

Reads from memory do not pass through here. Knows nothing of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.log_limit import LogLimit
from hutong.foundation.errors import CorruptData, HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.log import DISK_READ_BYTES_MAX
from hutong.scheduler.driver import UNFINISHED, FairExecutor, Unfinished

if TYPE_CHECKING:
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.clock import Clock
    from hutong.journal.log import DiskRead, PartitionLog

DISK_WAIT_MS_MAX: Final = 20_000  # clients give a request 30 s (Java) or 60 s (librdkafka)
CONTENDED_BYTES_MAX: Final = 256 * 1024  # of one partition (measured: ten readers during flushes, p50 1.7 ms, not 5.6)
_log = logging.getLogger("hutong.reads")


class DiskReads:
    """The queue for the disk. Figures: damaged_total, refused_total, and those of the journals' readers."""

    def __init__(
        self, make_executor: Callable[[], FairExecutor], clock: Clock, is_contended: Callable[[], bool]
    ) -> None:
        """`make_executor` makes the queue of one journal."""
        self.damaged_total = 0
        self._is_contended = is_contended
        self._make_executor = make_executor
        self._executors: dict[Path, FairExecutor] = {}  # by the folder of the journal
        self._closed: HutongError | None = None
        self._clock = clock
        self._log_limit = LogLimit()

    @property
    def refused_total(self) -> int:
        return sum(executor.refused_total for executor in self._executors.values())

    @property
    def bytes_max(self) -> int:
        """The bytes of one partition to read at a time; a larger batch is read whole."""
        return CONTENDED_BYTES_MAX if self._is_contended() else DISK_READ_BYTES_MAX

    def read(
        self,
        found: DiskRead[list[memoryview]],
        partition: Partition,
        offset: int,
        session: ClientSession,
        then: Continuation[list[memoryview]],
    ) -> None:
        """Read batches; `then` gets whole, sound batches, or one error.

        The errors: StorageError (CorruptData for a damaged batch), Expired or LimitExceeded if the node is too busy,
        OwnerGone.
        """

        def ended(outcome: list[memoryview] | HutongError) -> None:
            if isinstance(outcome, CorruptData):
                self._log_damage(partition, offset, outcome)
            then(outcome)

        self._executor_of(found.segment.path.parent).send(
            session.id,
            _Reading(partition.log, found).step,
            ended,
            cost=found.size,
            deadline_ms=self._clock.monotonic_ms() + DISK_WAIT_MS_MAX,
            owner=session.owner,
        )

    def close(self, error: HutongError) -> None:
        """Fail all reads, and from now on each new one at once."""
        self._closed = error
        for executor in self._executors.values():
            executor.close(error)

    def _executor_of(self, journal: Path) -> FairExecutor:
        executor = self._executors.get(journal)
        if executor is None:
            executor = self._executors[journal] = self._make_executor()
            if self._closed is not None:
                executor.close(self._closed)
        return executor

    def _log_damage(self, partition: Partition, offset: int, error: CorruptData) -> None:
        """One line in the log, and not more than one in each interval: a reader may ask again at once."""
        self.damaged_total += 1
        skipped = self._log_limit.admit(self._clock.monotonic_ms())
        if skipped is None:
            return
        _log.error(
            "%s; readers of topic %s partition %d are refused offset %d, all else is served (%d more like it before)",
            error,
            partition.topic_name,
            partition.index,
            offset,
            skipped,
        )


class _Reading:
    """One read, in one step or two."""

    __slots__ = ("_found", "_log", "_outcome")

    def __init__(self, log: PartitionLog, found: DiskRead[list[memoryview]]) -> None:
        self._log = log
        self._found = found
        self._outcome: list[memoryview] | HutongError | None = None

    def step(self, wake: Callable[[], None]) -> list[memoryview] | Unfinished:
        outcome = self._outcome
        if outcome is None:
            cached = self._log.read_from_page_cache(self._found)
            if cached is not None:
                return cached

            def ended(outcome: list[memoryview] | HutongError) -> None:
                self._outcome = outcome
                wake()

            self._log.read_from_disk(self._found, ended)
            return UNFINISHED
        if isinstance(outcome, HutongError):
            raise outcome
        return outcome
