"""The results of a recovery: the state that a journal starts with, and the report for the node's log."""

from dataclasses import dataclass, field
from pathlib import Path

from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.journal.append.producers import Producers
from hutong.journal.append.transactions import LogTransactions
from hutong.journal.files.segment import Segment
from hutong.journal.files.spans import LogSpans


@dataclass(slots=True)
class RecoveredLog:
    """One log as it was found."""

    start_offset: int
    end_offset: int
    producers: Producers
    spans: LogSpans = field(default_factory=LogSpans)
    clean_offset: int = 0
    transactions: LogTransactions | None = None

    def known_producers(self) -> Producers:
        return self.producers

    def begin_transactions(self) -> LogTransactions:
        """The transactions, from the first transactional batch on."""
        if self.transactions is None:
            self.transactions = LogTransactions()
            self.producers.in_transaction = self.transactions.open
        return self.transactions


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
