"""Exactly-once commit of a batch that was written in several transactions, with crashes at any point.

    next_step(batch, writes of its tasks, the record, the outcome of each transaction)
        → Record   write the transactions of batch N to the record, before any is committed
        → End      commit these, or abort these
        → Done     the batch is committed; abort other transactions

Strategy: ending several transactions is not atomic, recording their names is. So the record is the decision, and every
later step can be repeated: by the same driver after a lost answer, or by the next one, to which Spark gives the same
batch again. Its tasks then have written their rows once more. Those transactions are superfluous, unless a recorded one
has timed out and was aborted:

    recorded, none aborted              commit those still open; the new ones are orphans
    recorded, some aborted, none committed: abort the rest; start over with the new ones
    recorded, some aborted, some committed: the new transaction of the same task replaces each aborted one

The last case relies on a task getting the same rows again. Only their number can be checked: the commit is refused if
the number of tasks or of rows differs.

An application that writes versions (`txnVersion`) may continue with a later one while an earlier one is recorded and
not committed. So before a version is written, `settling_step` finishes the record, and reports if it was this version.

Pure: no clock, no sockets. Knows transactions by their outcomes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hutong.pipelines.client.identities import Identity, TransactionOutcome
from hutong.pipelines.errors import HalfDone, Outdated

LONGER = "set the sink's option kafka.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it)"


class TaskTransaction(NamedTuple):
    """The transaction of one task. `task` is the number of its partition in the plan."""

    task: int
    identity: Identity
    row_count: int


class BatchDecision(NamedTuple):
    """The composition of a batch. Tasks without rows have no transaction, so there may be fewer than `task_count`."""

    batch_id: int
    task_count: int
    transactions: tuple[TaskTransaction, ...]


@dataclass(frozen=True, slots=True)
class RecordDecision:
    """Store this durably, then ask again."""

    decision: BatchDecision


@dataclass(frozen=True, slots=True)
class End:
    """End these, note what became of them, then ask again."""

    transactions: tuple[TaskTransaction, ...]
    is_commit: bool


@dataclass(frozen=True, slots=True)
class Done:
    """The batch counts. These are open and not part of it."""

    left_over: tuple[TaskTransaction, ...]


@dataclass(frozen=True, slots=True)
class VersionAbsent:
    """The recorded version is not committed, or only in part; the version to be written may replace it."""


Step = RecordDecision | End | Done
SettlingStep = End | Done | VersionAbsent
Outcomes = Mapping[str, TransactionOutcome]
"""By transactional id, of everything recorded for the batch and everything written now."""


def next_step(written: BatchDecision, recorded: BatchDecision | None, outcomes: Outcomes) -> Step:
    """Return the driver's next step for a batch. Raises HalfDone if this attempt cannot finish it.

    `recorded` is the newest decision of the query, of any batch.
    """
    if recorded is None or recorded.batch_id < written.batch_id:
        return _begin(written, outcomes)
    if recorded.batch_id > written.batch_id:  # Spark goes on only after a batch is done
        return Done(_open(written.transactions, outcomes))
    aborted = _with(TransactionOutcome.ABORTED, recorded.transactions, outcomes)
    still_open = _open(recorded.transactions, outcomes)
    if not aborted:
        if still_open:
            return End(still_open, is_commit=True)
        counted = {one.identity for one in recorded.transactions}
        return Done(tuple(one for one in _open(written.transactions, outcomes) if one.identity not in counted))
    if len(aborted) + len(still_open) < len(recorded.transactions):
        return RecordDecision(_mended(recorded, aborted, written, outcomes))
    return End(still_open, is_commit=False) if still_open else _begin(written, outcomes)


def settling_step(version: int, recorded: BatchDecision | None, outcomes: Outcomes) -> SettlingStep:
    """Return the driver's next step before tasks may write a version. Done: all of the record is committed.

    Raises Outdated, HalfDone. A version committed in part is left to its next attempt, which has the rows.
    """
    if recorded is None:
        return VersionAbsent()
    check_version(version, recorded)
    aborted = _with(TransactionOutcome.ABORTED, recorded.transactions, outcomes)
    still_open = _open(recorded.transactions, outcomes)
    if not aborted:
        return End(still_open, is_commit=True) if still_open else Done(())
    counts_in_part = len(aborted) + len(still_open) < len(recorded.transactions)
    if counts_in_part and recorded.batch_id < version:
        raise HalfDone(
            f"version {recorded.batch_id} was committed in part before its driver ended, and {len(aborted)} of its "
            f"{len(recorded.transactions)} transactions were aborted since: write version {recorded.batch_id} again as "
            f"it was before version {version}"
        )
    return VersionAbsent()


def check_version(version: int, recorded: BatchDecision) -> None:
    """Raise Outdated for a version older than the recorded one: its fate is unknown."""
    if version < recorded.batch_id:
        raise Outdated(
            f"version {version} cannot be written after version {recorded.batch_id}: versions must rise. Either two "
            "jobs have the same txnAppId, or a checkpoint was deleted and numbers its batches anew: take another "
            "txnAppId"
        )


def _begin(written: BatchDecision, outcomes: Outcomes) -> Step:
    lost = [
        one for one in written.transactions if outcomes[one.identity.transactional_id] is not TransactionOutcome.OPEN
    ]
    if lost:
        raise HalfDone(
            f"batch {written.batch_id} is not committed: {len(lost)} of its {len(written.transactions)} transactions "
            f"were aborted before all tasks were done. If the batch took too long, {LONGER}; nothing of it was written"
        )
    return RecordDecision(written) if written.transactions else Done(())


def _mended(
    recorded: BatchDecision, aborted: Sequence[TaskTransaction], written: BatchDecision, outcomes: Outcomes
) -> BatchDecision:
    """The decision with another transaction for each that was aborted."""
    fresh = {one.task: one for one in _open(written.transactions, outcomes)}
    fits = written.task_count == recorded.task_count and all(
        one.task in fresh and fresh[one.task].row_count == one.row_count for one in aborted
    )
    if not fits:
        raise HalfDone(
            f"batch {recorded.batch_id} was committed in part before its driver ended, and {len(aborted)} of its "
            f"{len(recorded.transactions)} transactions were aborted since; what was written now does not have the "
            "same rows in the same tasks, so it cannot take their place. Start the query again as it was; to have the "
            "batch written again, rows that are there already included, start it once with the sink's option "
            "delivery set to at-least-once"
        )
    missing = {one.task for one in aborted}
    replaced = tuple(fresh[one.task] if one.task in missing else one for one in recorded.transactions)
    return recorded._replace(transactions=replaced)


def _open(transactions: Sequence[TaskTransaction], outcomes: Outcomes) -> tuple[TaskTransaction, ...]:
    return _with(TransactionOutcome.OPEN, transactions, outcomes)


def _with(
    outcome: TransactionOutcome, transactions: Sequence[TaskTransaction], outcomes: Outcomes
) -> tuple[TaskTransaction, ...]:
    return tuple(one for one in transactions if outcomes[one.identity.transactional_id] is outcome)
