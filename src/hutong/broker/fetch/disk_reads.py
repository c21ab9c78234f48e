"""Reads of what is no longer in memory, for all groups in fair shares.

Strategy: the readers of a topic in one group are an actor (`actors`), each partition that they ask for a message.
Actors get equal shares of the bytes, or as many as their priority says, with one member or a hundred. In its turn a
read takes what the machine holds in its page cache, which never blocks; what it does not hold is brought by a worker
while others have their turns. The bytes on their way together are bounded, as is the time that a read may wait.

Each read and each answer is small while somebody waits for a flush: the flush waits for the read before it, and its
answer for the loop that sends what was read. Otherwise a read is as large as clients ask for.

Each journal has a queue of its own: one whose disk stalls keeps what was begun for it, and others go on.

Reads from memory do not pass through here. Knows nothing of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.broker.fetch.actor_figures import ActorFigures, ReadFigures
from hutong.broker.handling.log_limit import LogLimit
from hutong.foundation.buckets import Buckets
from hutong.foundation.errors import CorruptData, Expired, HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.log import DISK_READ_BYTES_MAX
from hutong.scheduler.driver import UNFINISHED, FairExecutor, Unfinished

if TYPE_CHECKING:
    from hutong.broker.fetch.actors import Actor
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.clock import Clock
    from hutong.groups.actor_configs import ActorRules
    from hutong.journal.log import DiskRead, PartitionLog

QUOTA_WINDOW_MS: Final = 1_000  # an actor that was idle may read the quota of a second at once
CONTENDED_BYTES_MAX: Final = 256 * 1024  # of one partition (measured: ten readers during flushes, p50 1.7 ms, not 5.6)
CONTENDED_ANSWER_BYTES_MAX: Final = (
    1024 * 1024
)  # of all its partitions: the loop copies an answer to the socket at once
_log = logging.getLogger("hutong.reads")


class DiskReads:
    """The queue for the disk. Figures: damaged_total, refused_total, by_actor, and those of the journals' readers."""

    def __init__(
        self, make_executor: Callable[[], FairExecutor], clock: Clock, is_contended: Callable[[], bool]
    ) -> None:
        """`make_executor` makes the queue of one journal."""
        self.damaged_total = 0
        self.by_actor = ActorFigures()
        self._is_contended = is_contended
        self._make_executor = make_executor
        self._executors: dict[Path, FairExecutor] = {}  # by the folder of the journal
        self._closed: HutongError | None = None
        self._clock = clock
        self._log_limit = LogLimit()
        self._quotas = Buckets(QUOTA_WINDOW_MS)

    @property
    def executors(self) -> list[FairExecutor]:
        """The queues of the journals that were read from."""
        return list(self._executors.values())

    @property
    def refused_total(self) -> int:
        return sum(executor.refused_total for executor in self._executors.values())

    @property
    def bytes_max(self) -> int:
        """The bytes of one partition to read at a time; a larger batch is read whole."""
        return CONTENDED_BYTES_MAX if self._is_contended() else DISK_READ_BYTES_MAX

    def answer_bytes_max(self, bytes_max: int) -> int:
        """The bytes from the disk in one answer, where it may have `bytes_max`."""
        return min(bytes_max, CONTENDED_ANSWER_BYTES_MAX) if self._is_contended() else bytes_max

    def read(
        self,
        found: DiskRead[list[memoryview]],
        partition: Partition,
        offset: int,
        session: ClientSession,
        actor: Actor,
        rules: ActorRules,
        then: Continuation[list[memoryview]],
    ) -> None:
        """Read batches; `then` gets whole, sound batches, or one error.

        The errors: StorageError (CorruptData for a damaged batch), Expired or LimitExceeded if the node is too busy,
        OwnerGone.
        """

        now_ms = self._clock.monotonic_ms()
        figures = self.by_actor.of(actor, now_ms)
        figures.queued += 1

        def ended(outcome: list[memoryview] | HutongError) -> None:
            figures.queued -= 1
            if isinstance(outcome, CorruptData):
                self._log_damage(partition, offset, outcome)
            elif isinstance(outcome, Expired):
                figures.expired_total += 1
            elif not isinstance(outcome, HutongError):
                figures.bytes_total += sum(map(len, outcome))
            then(outcome)

        self._executor_of(found.segment.path.parent).send(
            actor,
            _Reading(partition.log, found, self._clock, figures).step,
            ended,
            cost=found.size,
            weight=rules.priority,
            deadline_ms=now_ms + rules.expiry_ms,
            owner=session.owner,
        )

    def owed_ms(self, actor: Actor, rules: ActorRules, size: int) -> int:
        """Note bytes that an actor got; returns for how long its reader must pause to keep within the quota."""
        if not rules.quota:
            return 0
        return self._quotas.use(actor, rules.quota, size, self._clock.monotonic_ms())

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

    __slots__ = ("_began_us", "_clock", "_figures", "_found", "_log", "_outcome")

    def __init__(
        self, log: PartitionLog, found: DiskRead[list[memoryview]], clock: Clock, figures: ReadFigures
    ) -> None:
        self._log = log
        self._clock = clock
        self._figures = figures
        self._began_us = 0
        self._found = found
        self._outcome: list[memoryview] | HutongError | None = None

    def step(self, wake: Callable[[], None]) -> list[memoryview] | Unfinished:
        outcome = self._outcome
        if outcome is None:
            self._began_us = self._clock.monotonic_us()
            cached = self._log.read_from_page_cache(self._found)
            if cached is not None:
                self._count_time()
                return cached

            def ended(outcome: list[memoryview] | HutongError) -> None:
                self._outcome = outcome
                self._count_time()
                wake()

            self._log.read_from_disk(self._found, ended)
            return UNFINISHED
        if isinstance(outcome, HutongError):
            raise outcome
        return outcome

    def _count_time(self) -> None:
        self._figures.used_us += self._clock.monotonic_us() - self._began_us
