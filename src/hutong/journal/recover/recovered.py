"""The results of a recovery: the state that a journal starts with, and the report for the node's log."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.journal.append.producers import Producers
from hutong.journal.append.transactions import LogTransactions
from hutong.journal.files.segment import Segment
from hutong.journal.files.spans import LogSpans
from hutong.journal.recover.scan import ScannedChunk

UNCERTAIN_ROWS_MAX: Final = 200_000  # a scan has half as many at most, unless the checkpoint is missing


@dataclass(slots=True)
class RecoveredLog:
    """One log as it was found."""

    start_offset: int
    end_offset: int
    producers: Producers
    spans: LogSpans = field(default_factory=LogSpans)
    clean_offset: int = 0
    transactions: LogTransactions | None = None
    committed_offset: int = 0  # the end that the checkpoint knew: of several replicas, all have what comes before it

    def known_producers(self) -> Producers:
        return self.producers

    def begin_transactions(self) -> LogTransactions:
        """The transactions, from the first transactional batch on."""
        if self.transactions is None:
            self.transactions = LogTransactions()
            self.producers.in_transaction = self.transactions.open
        return self.transactions


class UncertainChunks:
    """The chunks behind the checkpoint, of which nobody knows yet if other replicas have them.

    A row has the end of a chunk, and the end offset of each log in it. Of very many chunks two share a row: what they
    hold becomes visible with the later one.
    """

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[int, int]]] = []

    def add(self, scanned: ScannedChunk) -> None:
        """Note the next chunk."""
        ends = {run.partition_id: run.end_offset for run, _, _ in scanned.runs if run.offset_count}
        self.rows.append((scanned.header.end, ends))
        if len(self.rows) > UNCERTAIN_ROWS_MAX:
            self.rows = [_joined(self.rows[number : number + 2]) for number in range(0, len(self.rows), 2)]


def _joined(rows: list[tuple[int, dict[int, int]]]) -> tuple[int, dict[int, int]]:
    ends: dict[int, int] = {}
    for _, more in rows:
        ends |= more
    return rows[-1][0], ends


@dataclass(slots=True)
class RecoveryReport:
    """The findings and actions of a start. `repairs` are sentences for the node's log; none after a clean stop.

    `has_damaged_checkpoint`: it failed its check, so everything was read. A crash does not do that.
    """

    directory: Path
    position: int = 0
    scanned_bytes: int = 0
    was_clean: bool = False
    has_damaged_checkpoint: bool = False
    repairs: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """The report for a person: nothing after a clean stop."""
        if self.was_clean and not self.repairs:
            return []
        return [
            f"{self.directory} was not closed cleanly: {self.scanned_bytes} bytes were checked, the journal ends at "
            f"position {self.position}.",
            *self.repairs,
        ]


@dataclass(slots=True)
class Recovered:
    """Everything a journal starts with. The last segment is the active one, its file open and its index loaded."""

    position: int
    leader_epoch: int
    segments: list[Segment]
    logs: dict[int, RecoveredLog]
    report: RecoveryReport
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    uncertain: "UncertainChunks | None" = None  # without other replicas, all that was found is committed
