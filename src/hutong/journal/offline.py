"""A stand-in for a journal that could not be opened: it accepts no records, returns none, and touches no file.

Strategy: a journal without a file on a disk that refuses everything, failed from the beginning. Its logs are empty, but
do not say so: reads and searches are refused with KAFKA_STORAGE_ERROR, as Apache Kafka refuses readers of an offline
log directory. An answer from an empty log would be worse than none: a consumer whose offset is out of range starts
again from the beginning.

The folder stays as it is, for `hutong doctor` and the next start.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Refused, StorageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.files.disk import DiskFile
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead, PartitionLog, Views
from hutong.journal.parts import JournalHost
from hutong.journal.read.timestamps import Found
from hutong.journal.recover.recovered import Recovered, RecoveryReport
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.offload import InlineOffload
from hutong.wire.kafka.error_codes import ErrorCode


class NoDisk:
    """A disk that refuses every operation with the same error."""

    def __init__(self, reason: StorageError) -> None:
        self._reason = reason

    def open(self, path: Path) -> DiskFile:
        self._refuse()

    def create(self, path: Path) -> DiskFile:
        self._refuse()

    def rename(self, source: Path, target: Path) -> None:
        self._refuse()

    def link(self, source: Path, target: Path) -> None:
        self._refuse()

    def has_other_names(self, path: Path) -> bool:
        self._refuse()

    def unlink(self, path: Path) -> None:
        self._refuse()

    def list(self, directory: Path) -> list[str]:
        self._refuse()

    def make_directory(self, path: Path) -> None:
        self._refuse()

    def sync_directory(self, path: Path) -> None:
        self._refuse()

    def free_bytes(self, path: Path) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._reason


class OfflineLog(PartitionLog):
    """A log of an offline journal."""

    __slots__ = ("_reason",)

    def __init__(self, journal: "OfflineJournal", partition_id: int) -> None:
        super().__init__(partition_id, journal._parts.stores, 0, 0)
        self._reason = journal.reason

    @property
    def offline(self) -> StorageError:
        return self._reason

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        up_to: int | None = None,
        disk_bytes_max: int = 0,
    ) -> "Views | DiskRead[list[memoryview]]":
        raise self.refusal

    def offset_for_timestamp(self, timestamp_ms: int, then: Continuation[Found]) -> None:
        then(self.refusal)

    def offset_of_max_timestamp(self, then: Continuation[Found]) -> None:
        then(self.refusal)

    def delete_before(self, offset: int) -> None:
        raise self.refusal

    @property
    def refusal(self) -> Refused:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The partition group is offline: {self.offline}")


class OfflineJournal(Journal):
    """The stand-in; `offline` is the error by which the real one was refused."""

    def __init__(
        self,
        reason: StorageError,
        directory: Path,
        clock: Clock,
        timers: TimerWheel,
        settings: JournalSettings,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.reason = reason
        nothing = Recovered(0, 0, [], {}, RecoveryReport(directory, was_clean=True))
        disk, offload = NoDisk(reason), InlineOffload()
        super().__init__(nothing, directory, JournalHost(disk, offload, clock, timers, call_soon), settings)
        self.flusher.fail(reason)

    @property
    def offline(self) -> StorageError | None:
        return self.reason

    def log(self, partition_id: int) -> PartitionLog:
        log = self._parts.logs.get(partition_id)
        if log is None:
            log = self._parts.logs[partition_id] = OfflineLog(self, partition_id)
        return log


class AwaitedJournal(OfflineJournal):
    """The stand-in for a journal that is about to be opened while its partitions are known: nothing has failed."""

    @property
    def offline(self) -> None:
        return None

    @property
    def failure(self) -> None:
        return None
