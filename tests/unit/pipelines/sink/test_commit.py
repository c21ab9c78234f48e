"""Batches that count exactly once: drivers that die between any two requests, time-outs, two drivers at once.

The driver is the real one, over a model of brokers (`commit_model`): what is tested is the order of its requests.
"""

import random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.sink.commit_model import Brokers, Killed, ModelTransactions, Row
from tests.unit.pipelines.unhurried import unhurried

from hutong.pipelines.client.identities import Identity, TransactionOutcome
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.errors import HalfDone, TakenOver
from hutong.pipelines.sink.commit.driver import Committer, WrittenBatch
from hutong.pipelines.sink.commit.machine import BatchDecision, Done, End, RecordDecision, TaskTransaction, next_step
from hutong.pipelines.sink.commit.record import transactional_id

QUERY = "q"
TOPICS = frozenset({"t"})


def rows_of(batch_id: int, task: int) -> list[Row]:
    return [(batch_id, task, number) for number in range(task + 1)]


class Query:
    """A query that Spark starts again after each death: the same batches with the same rows."""

    def __init__(self, chance: random.Random, task_count: int) -> None:
        self.brokers = Brokers()
        self.chance = chance
        self.task_count = task_count
        self._attempts = 0
        self._runs = 0

    def write(self, batch_id: int, run_id: str, expire: bool = False) -> WrittenBatch:
        """The steps of the tasks of a batch, with the losers' attempts."""
        written = []
        for task in range(self.task_count):
            for _ in range(self.chance.choice([1, 1, 2])):
                self._attempts += 1
                name = transactional_id(QUERY, f"w-{self._attempts}")
                owner = self.brokers.init_producer(name)
                self.brokers.write(owner, rows_of(batch_id, task))
                if expire and self.chance.random() < 0.1:
                    self.brokers.expire(name)
            written.append(TaskTransaction(task, owner, task + 1))
        return WrittenBatch(QUERY, run_id, BatchDecision(batch_id, self.task_count, tuple(written)), TOPICS, True)

    def committer(self, die: float, expire: float = 0.0) -> Committer:
        """A driver that may die at any request, while transactions may time out."""

        def before() -> None:
            if self.chance.random() < die:
                raise Killed
            if self.chance.random() < expire:
                self.brokers.expire(self.chance.choice(sorted(self.brokers.ids)))

        return Committer(cast(TransactionClient, ModelTransactions(self.brokers, before)))

    def expire_some(self) -> None:
        for name in self.brokers.ids:
            if self.chance.random() < 0.3:
                self.brokers.expire(name)

    def run(self, batch_id: int, die: float, expire: float) -> None:
        """Until the batch is committed. The last attempts are not disturbed."""
        for attempt in range(1000):
            self._runs += 1
            calm = attempt > 20
            batch = self.write(batch_id, f"r{self._runs}", expire=not calm and expire > 0)
            committer = self.committer(0 if calm else die, 0 if calm else expire)
            try:
                committer.commit(batch)
            except (Killed, HalfDone, TakenOver) as error:
                if not isinstance(error, Killed) or self.chance.random() < 0.3:
                    self._give_up(batch)
                if expire:
                    self.expire_some()
                continue
            return
        raise AssertionError("the batch never came to its end")

    def _give_up(self, batch: WrittenBatch) -> None:
        """Spark aborts a batch whose commit failed."""
        try:
            self.committer(0.1).abort(batch)
        except Killed:
            return

    def open_tasks(self) -> list[str]:
        return [name for name, one in self.brokers.ids.items() if one.is_ongoing and "w-" in name]


@unhurried
@given(seed=st.integers(0, 2**32), tasks=st.integers(1, 4), die=st.sampled_from([0.02, 0.1, 0.3]), late=st.booleans())
def test_each_row_counts_once_wherever_drivers_die(seed: int, tasks: int, die: float, late: bool) -> None:
    query = Query(random.Random(seed), tasks)
    for batch_id in range(4):
        query.run(batch_id, die, 0.05 if late else 0.0)
        if query.chance.random() < 0.3:  # Spark died before it noted the end of the batch
            query.run(batch_id, die, 0.0)
    expected = sorted(row for batch_id in range(4) for task in range(tasks) for row in rows_of(batch_id, task))
    assert sorted(query.brokers.counted) == expected
    query.committer(0).commit(query.write(4, "last"))
    assert query.open_tasks() == []


@unhurried
@given(seed=st.integers(0, 2**32))
def test_of_two_drivers_of_one_query_one_is_shut_out(seed: int) -> None:
    """The second does all of its commit between two requests of the first."""
    query = Query(random.Random(seed), 2)
    first, second = query.write(7, "a"), query.write(7, "b")
    requests = query.chance.randrange(12)
    ran = False

    def before() -> None:
        nonlocal requests, ran
        requests -= 1
        if requests < 0 and not ran:
            ran = True
            query.committer(0).commit(second)

    try:
        Committer(cast(TransactionClient, ModelTransactions(query.brokers, before))).commit(first)
    except (TakenOver, HalfDone):
        assert ran
    if not ran:
        query.committer(0).commit(second)
    assert sorted(query.brokers.counted) == sorted(row for task in range(2) for row in rows_of(7, task))


def identity(name: str) -> Identity:
    return Brokers().init_producer(name)


def decision(batch_id: int, *names: str, tasks: int = 2, rows: int = 1) -> BatchDecision:
    return BatchDecision(
        batch_id, tasks, tuple(TaskTransaction(task, identity(name), rows) for task, name in enumerate(names))
    )


OPEN, COMMITTED, ABORTED = TransactionOutcome.OPEN, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED


def test_a_new_batch_is_recorded_before_it_is_committed() -> None:
    new = decision(3, "x", "y")
    assert next_step(new, decision(2, "a"), {"x": OPEN, "y": OPEN}) == RecordDecision(new)
    assert next_step(new, new, {"x": OPEN, "y": OPEN}) == End(new.transactions, is_commit=True)
    assert next_step(new, new, {"x": COMMITTED, "y": COMMITTED}) == Done(())


def test_what_is_recorded_and_open_is_committed_and_what_is_written_again_left_over() -> None:
    old, new = decision(3, "a", "b"), decision(3, "x", "y")
    assert next_step(new, old, {"a": COMMITTED, "b": OPEN, "x": OPEN, "y": OPEN}) == End(
        old.transactions[1:], is_commit=True
    )
    assert next_step(new, old, {"a": COMMITTED, "b": COMMITTED, "x": OPEN, "y": ABORTED}) == Done(new.transactions[:1])


def test_what_was_aborted_is_replaced_by_the_same_task() -> None:
    old, new = decision(3, "a", "b"), decision(3, "x", "y")
    mended = BatchDecision(3, 2, (old.transactions[0], new.transactions[1]))
    assert next_step(new, old, {"a": COMMITTED, "b": ABORTED, "x": OPEN, "y": OPEN}) == RecordDecision(mended)


def test_nothing_is_mixed_where_nothing_counts_yet() -> None:
    old, new = decision(3, "a", "b"), decision(3, "x", "y")
    assert next_step(new, old, {"a": OPEN, "b": ABORTED, "x": OPEN, "y": OPEN}) == End(
        old.transactions[:1], is_commit=False
    )
    assert next_step(new, old, {"a": ABORTED, "b": ABORTED, "x": OPEN, "y": OPEN}) == RecordDecision(new)


@pytest.mark.parametrize("new", [decision(3, "x", "y", tasks=3), decision(3, "x", "y", rows=2), decision(3, "x")])
def test_other_rows_do_not_take_the_place_of_what_was_aborted(new: BatchDecision) -> None:
    with pytest.raises(HalfDone, match=r"committed in part.*delivery set to at-least-once"):
        next_step(new, decision(3, "a", "b"), {"a": COMMITTED, "b": ABORTED, "x": OPEN, "y": OPEN})


def test_a_batch_that_took_too_long_is_told() -> None:
    with pytest.raises(HalfDone, match=r"1 of its 2 transactions were aborted.*kafka.transaction.timeout.ms"):
        next_step(decision(3, "x", "y"), None, {"x": OPEN, "y": ABORTED})


def test_a_batch_before_the_recorded_one_is_done() -> None:
    new = decision(3, "x", "y")
    assert next_step(new, decision(4, "a"), {"x": OPEN, "y": OPEN}) == Done(new.transactions)


def test_a_batch_without_rows_needs_no_record() -> None:
    assert next_step(decision(3), decision(2, "a"), {}) == Done(())
