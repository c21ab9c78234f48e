"""Versions of an application's writes: each row once, whatever attempt dies where, and two jobs with one id are told.

The driver is the real one, over a model of brokers (`commit_model`); ids of workers are taken again as in Spark.
"""

import random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.sink.commit_model import Brokers, Killed, ModelTransactions, Row
from tests.unit.pipelines.unhurried import unhurried

from hutong.pipelines.client.identities import Identity, Producer, TransactionOutcome
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.errors import HalfDone, Outdated, TakenOver
from hutong.pipelines.sink.commit.driver import Committer, WrittenBatch
from hutong.pipelines.sink.commit.machine import BatchDecision, Done, End, TaskTransaction, VersionAbsent, settling_step
from hutong.pipelines.sink.commit.record import application_query, name_of, transactional_id
from hutong.pipelines.sink.worker_ids import WorkerIds

QUERY = application_query("nightly", "t")
TASKS = 3
DIE_AT_MAX = 40
OPEN, COMMITTED, ABORTED = TransactionOutcome.OPEN, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED


def rows_of(version: int) -> list[Row]:
    return [(version, task, number) for task in range(TASKS) for number in range(task + 1)]


class Application:
    """Writes versions, one after another, and is started again when it dies."""

    def __init__(self, chance: random.Random) -> None:
        self.brokers = Brokers()
        self.chance = chance
        self.ids = WorkerIds("w")

    def committer(self, die_at: int = -1) -> Committer:
        """A driver that dies at that request."""
        left = die_at

        def before() -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        return Committer(cast(TransactionClient, ModelTransactions(self.brokers, before)))

    def tasks(self, version: int, count: int = TASKS) -> WrittenBatch:
        written = []
        for task in range(count):
            owner = self.brokers.init_producer(transactional_id(QUERY, self.ids.take_id(QUERY, version)))
            self.brokers.write(owner, [row for row in rows_of(version) if row[1] == task])
            written.append(TaskTransaction(task, owner, task + 1))
        return WrittenBatch(QUERY, "r", BatchDecision(version, TASKS, tuple(written)), frozenset({"t"}), False)

    def attempt(self, version: int, die_at: int = -1) -> bool:
        """One run of the job, which may die. Returns whether it wrote. Raises what the job's user would see."""
        committer = self.committer(die_at)
        if committer.settle(QUERY, version):
            return False
        written = self.tasks(version, self.chance.randint(1, TASKS) if die_at == 0 else TASKS)
        return committer.commit_version(written)

    def attempt_that_dies(self, version: int) -> None:
        try:
            self.attempt(version, self.chance.randrange(DIE_AT_MAX))
        except Killed:
            return

    def expire_some(self) -> None:
        for name in self.brokers.ids:
            if self.chance.random() < 0.3:
                self.brokers.expire(name)


@unhurried
@given(seed=st.integers(0, 2**32), late=st.booleans())
def test_each_row_counts_once_wherever_attempts_die(seed: int, late: bool) -> None:
    job = Application(random.Random(seed))
    for version in range(4):
        for _ in range(job.chance.randrange(4)):
            job.attempt_that_dies(version)
            if late:
                job.expire_some()
        job.attempt(version)
        assert not job.attempt(version), "it is there"
    expected = sorted(row for version in range(4) for row in rows_of(version))
    assert sorted(job.brokers.counted) == expected
    assert [name for name, one in job.brokers.ids.items() if one.is_ongoing] == []


@unhurried
@given(seed=st.integers(0, 2**32))
def test_a_version_that_was_given_up_counts_whole_or_not_at_all(seed: int) -> None:
    """The caller goes on with the next version after an attempt died, and never repeats that one."""
    job = Application(random.Random(seed))
    for version in range(6):
        job.attempt_that_dies(version)
    job.attempt(6)
    counted = sorted(job.brokers.counted)
    whole = {row[0] for row in counted}
    assert counted == sorted(row for version in whole for row in rows_of(version))
    assert 6 in whole


@unhurried
@given(requests=st.integers(0, DIE_AT_MAX), seed=st.integers(0, 2**32))
def test_of_two_jobs_with_one_id_one_is_told(requests: int, seed: int) -> None:
    """The second job writes all of the same version between two requests of the first."""
    job = Application(random.Random(seed))
    ran = False

    def before() -> None:
        nonlocal requests, ran
        requests -= 1
        if requests < 0 and not ran:
            ran = True
            wrote.append(job.attempt(7))

    wrote: list[bool] = []
    first = Committer(cast(TransactionClient, ModelTransactions(job.brokers, before)))
    told = False
    try:
        told = first.settle(QUERY, 7) or not first.commit_version(job.tasks(7))
    except (TakenOver, HalfDone):
        told = True
    if ran:
        assert told != (not wrote[0]), "one of them wrote, the other was told"
    assert sorted(job.brokers.counted) == rows_of(7)


def test_an_older_version_is_refused() -> None:
    job = Application(random.Random(1))
    assert job.attempt(5)
    with pytest.raises(Outdated, match=r"version 4 cannot be written after version 5.*take another txnAppId"):
        job.attempt(4)
    written = job.tasks(4)
    with pytest.raises(Outdated):
        job.committer().commit_version(written)
    assert sorted(job.brokers.counted) == rows_of(5)


def decision(version: int, *names: str) -> BatchDecision:
    tasks = [TaskTransaction(task, Identity(name, Producer(task, 0)), 1) for task, name in enumerate(names)]
    return BatchDecision(version, 2, tuple(tasks))


def test_what_is_decided_is_finished_before_another_version() -> None:
    recorded = decision(5, "a", "b")
    assert settling_step(5, None, {}) == VersionAbsent()
    for version in (5, 6):
        last = End(recorded.transactions[1:], is_commit=True)
        assert settling_step(version, recorded, {"a": COMMITTED, "b": OPEN}) == last
        assert settling_step(version, recorded, {"a": COMMITTED, "b": COMMITTED}) == Done(())
        assert settling_step(version, recorded, {"a": OPEN, "b": ABORTED}) == VersionAbsent()


def test_a_version_that_counts_in_part_is_mended_by_itself_alone() -> None:
    recorded, outcomes = decision(5, "a", "b"), {"a": COMMITTED, "b": ABORTED}
    assert settling_step(5, recorded, outcomes) == VersionAbsent()
    with pytest.raises(HalfDone, match=r"version 5 was committed in part.*write version 5 again.*before version 6"):
        settling_step(6, recorded, outcomes)


def test_no_application_is_taken_for_another() -> None:
    """Orphans are looked for by the beginning of their ids."""
    names = [application_query(app, topic) for app in ("a", "a-t", "a-") for topic in ("t", "t-t", None)]
    assert not any(one != other and one.startswith(other) for one in names for other in names)
    assert name_of(names[0]) == "txnAppId 'a' of topic t"
    assert name_of(names[2]) == "txnAppId 'a' of writes without the option topic"
    assert name_of("0a1b") == "the query 0a1b"
