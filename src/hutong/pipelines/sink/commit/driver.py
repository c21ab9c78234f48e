"""Executes the machine's decisions: queries coordinators, writes the record, ends transactions, aborts orphans.

A driver first initializes the owner's transactional id of its query. Then it reads the record, and writes it in a
transaction of that id. A later driver that initializes the id fences the earlier one. So of two drivers of one query
only the last can write the record, and it has read the other's.

Orphans are open transactions of the query that belong to no batch: of tasks that failed or lost to another attempt, or
of a killed driver. They block read_committed consumers until they time out, so the driver finds and aborts them.

A batch job without a version has no later driver that could resume: its transactions are ended without a record. With
one (`txnAppId`, `txnVersion`) it is recorded as a batch is.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hutong.foundation.errors import PeerError, Refused
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.group_offsets import OffsetAndMetadata
from hutong.pipelines.client.identities import Identity, TransactionOutcome
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.errors import HalfDone, TakenOver
from hutong.pipelines.sink.commit.machine import (
    BatchDecision,
    Done,
    End,
    RecordDecision,
    TaskTransaction,
    VersionAbsent,
    check_version,
    next_step,
    settling_step,
)
from hutong.pipelines.sink.commit.record import (
    RecordedDecision,
    decision_of,
    group_of,
    id_prefix,
    name_of,
    newest,
    note_count,
    notes,
    owner_id,
)
from hutong.wire.kafka.error_codes import ErrorCode

OWNER_TIMEOUT_MS = 60_000
"""A record takes a moment; what a killed driver left of one is aborted by the next."""
STEPS_MAX = 8
"""Record, end, and the same once more for what was aborted meanwhile; more means that the machine goes in circles."""
SWEEP_EVERY = 20
"""The number of batches after which to look for orphans, even without a sign of any."""
SHUT_OUT = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """Spark's message at the end of a batch."""

    query_id: str
    run_id: str
    written: BatchDecision
    topics: frozenset[str]
    was_retried: bool
    """True if an attempt of a task failed: it may have left a transaction open."""


class Committer:
    """Commits and aborts the batches of queries. Blocking; Spark starts a process for each."""

    def __init__(self, transactions: TransactionClient) -> None:
        self._transactions = transactions

    def commit(self, batch: WrittenBatch) -> None:
        """Return once the batch counts. Raises TakenOver, HalfDone, or what the brokers refuse."""
        if not batch.written.transactions and not self._is_recorded(batch):
            return
        owner = self._transactions.init_producer(owner_id(batch.query_id), OWNER_TIMEOUT_MS)
        found = self.recorded(batch.query_id)
        self._finish(owner, batch, found)
        # The first batch of a run: the previous driver may have died between tasks and commit.
        is_new_run = found is None or found.run_id != batch.run_id
        # Else listing all transactions would cost each batch a request to every broker.
        if batch.was_retried or is_new_run or batch.written.batch_id % SWEEP_EVERY == 0:
            self._sweep(batch.query_id, frozenset())

    def settle(self, query_id: str, version: int) -> bool:
        """Finish earlier decisions before an application writes a version.

        Return True if the version is committed already.

        A committed version is recorded without its transactions, because later tasks may reuse their ids. Of two jobs
        with one id the later one fences the other. Raises Outdated, HalfDone, TakenOver, or the brokers' refusal.
        """
        owner = self._transactions.init_producer(owner_id(query_id), OWNER_TIMEOUT_MS)
        found = self.recorded(query_id)
        recorded = found.decision if found is not None else None
        outcomes = self._transactions.outcomes(_identities(recorded.transactions)) if recorded is not None else {}
        for _ in range(STEPS_MAX):
            match settling_step(version, recorded, outcomes):
                case End(chosen, is_commit):
                    outcomes |= self._end(chosen, is_commit)
                case Done():
                    break
                # Nothing of this version counts, or a part of it only: the tasks may write.
                case VersionAbsent():
                    return False
        else:
            # Each step changes an outcome or the record, so STEPS_MAX bounds a bug and no load.
            raise AssertionError(f"version {version} is not settled: {recorded}, {outcomes}")
        assert found is not None  # nothing is done without a record
        # Without transactions the record stays valid after brokers forget their ids.
        if found.decision.transactions:
            batch = WrittenBatch(query_id, found.run_id, found.decision, frozenset(), False)
            self._record(owner, batch, _without_transactions(batch), found)
        # An earlier version is settled now; this one is still to be written.
        if found.decision.batch_id < version:
            return False
        self._sweep(query_id, frozenset())
        return True

    def commit_version(self, batch: WrittenBatch) -> bool:
        """As `commit`, for a version of an application. Raises Outdated, too.

        Returns False where another job had written the version: then the rows written now are dropped.
        """
        if not batch.written.transactions and not self._is_recorded(batch):
            return True
        owner = self._transactions.init_producer(owner_id(batch.query_id), OWNER_TIMEOUT_MS)
        found = self.recorded(batch.query_id)
        if found is not None:
            # Another job with this txnAppId may have recorded a later version since `settle`.
            check_version(batch.written.batch_id, found.decision)
        is_ours = self._finish(owner, batch, found)
        with suppress(PeerError):  # the version counts: the next job records that, if this one cannot
            self._record(owner, batch, _without_transactions(batch), found)
        self._sweep(batch.query_id, frozenset())
        return is_ours

    def _finish(self, owner: Identity, batch: WrittenBatch, found: RecordedDecision | None) -> bool:
        """Take steps until the batch is committed. Return True if this attempt's records are part of it."""
        recorded = found.decision if found is not None else None
        outcomes = self._outcomes(batch.written, recorded)
        for _ in range(STEPS_MAX):
            match next_step(batch.written, recorded, outcomes):
                # Recorded before any commit, so that a later driver can take every following step again.
                case RecordDecision(decision):
                    self._record(owner, batch, decision, found)
                    recorded = decision
                case End(chosen, is_commit):
                    outcomes |= self._end(chosen, is_commit)
                case Done(left_over):
                    self._transactions.end(_identities(left_over), is_commit=False)
                    counted = frozenset(_identities(recorded.transactions)) if recorded is not None else frozenset()
                    # No common transaction: another attempt won, and this one's rows were aborted.
                    return not counted.isdisjoint(_identities(batch.written.transactions))
        raise AssertionError(f"batch {batch.written.batch_id} does not come to an end: {recorded}, {outcomes}")

    def abort(self, batch: WrittenBatch) -> None:
        """Aborts what is not recorded: what is may count in part already, and is finished by the next attempt.

        It may have been recorded a moment ago, so that is waited for. The owner's id is not taken for it: that would
        shut out a driver that has taken over.
        """
        if not batch.written.transactions:
            return
        # Fetching offsets waits for pending transactional offsets of the partition (KIP-447), so this waits for a
        # record that is being committed.
        for topic in batch.topics:
            self._transactions.offsets_of(group_of(batch.query_id, 0), [TopicPartition(topic, 0)])
        found = self.recorded(batch.query_id)
        wanted = frozenset(_identities(found.decision.transactions) if found is not None else ())
        written = _identities(batch.written.transactions)
        self._transactions.end([one for one in written if one not in wanted], is_commit=False)
        self._sweep(batch.query_id, frozenset(one.transactional_id for one in wanted))

    def commit_job(self, written: BatchDecision) -> None:
        """End the transactions of a batch job, all of which must be open. Raises HalfDone."""
        identities = _identities(written.transactions)
        outcomes = self._transactions.outcomes(identities)
        next_step(written, None, outcomes)  # raises where something was aborted
        refused = self._transactions.end(identities, is_commit=True)
        if refused:
            raise HalfDone(
                f"{len(refused)} of the {len(identities)} transactions of this job were aborted while it was "
                f"committed, the others count: {refused[0]}"
            )

    def abort_job(self, job_id: str, written: BatchDecision) -> None:
        """Tasks that run on, not knowing that it is all over, are found unless they begin after this."""
        self._transactions.end(_identities(written.transactions), is_commit=False)
        self._sweep(job_id, frozenset())

    def recorded(self, query_id: str) -> RecordedDecision | None:
        """The newest decision of a query. Nothing of it is on its way while the owner's id is held."""
        first = newest(self._transactions.offsets_of(group_of(query_id, 0)))
        # A new query, or one whose group the brokers have dropped (offsets.retention.minutes).
        if first is None:
            return None
        place, note = first
        parts = [note]
        # Brokers bound the metadata of an offset, so a large decision is spread over several groups.
        for number in range(1, note_count(note)):
            offsets = self._transactions.offsets_of(group_of(query_id, number), [place])
            # A missing part makes `decision_of` raise: brokers expired it.
            parts.append(offsets.get(place, OffsetAndMetadata(-1)))
        return RecordedDecision(*decision_of(query_id, parts), place)

    def _is_recorded(self, batch: WrittenBatch) -> bool:
        found = self.recorded(batch.query_id)
        return found is not None and found.decision.batch_id == batch.written.batch_id

    def _record(
        self, owner: Identity, batch: WrittenBatch, decision: BatchDecision, found: RecordedDecision | None
    ) -> None:
        place = TopicPartition(min(batch.topics), 0) if batch.topics else None
        if found is not None and (place is None or found.decision.batch_id == decision.batch_id):
            place = found.place  # of two records of one batch the later must be found
        assert place is not None  # a decision of this batch has rows, and rows have a topic
        try:
            for group, committed in notes(batch.query_id, decision, batch.run_id):
                self._transactions.commit_offset(owner, group, place, committed)
            refused = self._transactions.end([owner], is_commit=True)
            if refused:
                raise refused[0]
        except Refused as error:
            # PRODUCER_FENCED and its relatives: a later driver initialized the owner's id.
            if error.code in SHUT_OUT:
                raise taken_over(batch.query_id) from error
            raise

    def _end(self, chosen: Sequence[TaskTransaction], is_commit: bool) -> dict[str, TransactionOutcome]:
        """End transactions and return the outcome of each, which may differ from the request."""
        identities = _identities(chosen)
        refused = self._transactions.end(identities, is_commit=is_commit)
        if refused:
            found = self._transactions.outcomes(identities)
            # Refused although open: no state explains it, so the caller gets the refusal.
            if TransactionOutcome.OPEN in found.values():
                raise refused[0]
            return found
        outcome = TransactionOutcome.COMMITTED if is_commit else TransactionOutcome.ABORTED
        return {one.transactional_id: outcome for one in identities}

    def _outcomes(self, written: BatchDecision, recorded: BatchDecision | None) -> dict[str, TransactionOutcome]:
        wanted = list(written.transactions)
        if recorded is not None and recorded.batch_id == written.batch_id:
            # Outcomes of another batch's transactions do not matter here.
            wanted += recorded.transactions
        return self._transactions.outcomes(_identities(wanted))

    def _sweep(self, query_id: str, wanted: frozenset[str]) -> None:
        """Abort other open transactions of the query. A failure does not fail a batch that is committed."""
        try:
            for one in self._transactions.open_ids(id_prefix(query_id)):
                if one != owner_id(query_id) and one not in wanted:
                    # InitProducerId aborts the id's open transaction and fences its writer.
                    self._transactions.init_producer(one, OWNER_TIMEOUT_MS)
        except PeerError:
            return  # their time will be up


def taken_over(query_id: str) -> TakenOver:
    """The error of a driver that another has shut out."""
    return TakenOver(
        f"another driver has taken over {name_of(query_id)}: this one ends; run one driver per checkpoint or txnAppId"
    )


def _without_transactions(batch: WrittenBatch) -> BatchDecision:
    """The decision once all of it counts."""
    return batch.written._replace(transactions=())


def _identities(transactions: Sequence[TaskTransaction]) -> list[Identity]:
    return [one.identity for one in transactions]
