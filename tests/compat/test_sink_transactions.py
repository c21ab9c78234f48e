"""Transactions that one process begins and another ends, on our node and on Apache Kafka: what the sink is built on.

Both versions of the protocol where the broker has both (KIP-890): partitions announced, and added by the first records.
"""

import itertools
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import pytest
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import DEFAULT_KAFKA_SCRIPT, free_port
from tests.support.confluent import read_partition, values
from tests.support.node import Node
from tests.support.waiting import until

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Refused
from hutong.pipelines.client.cluster import Cluster, ClusterSettings, TopicPartition, parse_bootstrap
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.coordinators import Coordinators
from hutong.pipelines.client.group_offsets import OffsetAndMetadata, commit_offsets, fetch_offsets
from hutong.pipelines.client.identities import Identity, TransactionOutcome
from hutong.pipelines.client.transactions import IMPLICIT_PRODUCE, OpenTransaction, TransactionClient
from hutong.pipelines.errors import HalfDone, TakenOver
from hutong.pipelines.sink.commit.driver import Committer, WrittenBatch
from hutong.pipelines.sink.commit.machine import BatchDecision, TaskTransaction
from hutong.pipelines.sink.commit.record import TRANSACTIONS_PER_NOTE, application_query, transactional_id

SCRIPT = os.environ.get("HUTONG_TEST_KAFKA_PEER") or str(DEFAULT_KAFKA_SCRIPT)
FETCH_S_MAX = 240.0
TIMEOUT_MS = 60_000
PARTITIONS = 2
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not find_spec("pyarrow") or not find_spec("numba"), reason="needs the extra spark"),
]


@pytest.fixture(scope="module", params=["hutong", pytest.param("kafka", marks=pytest.mark.thorough)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: pathlib.Path = tmp_path_factory.mktemp("broker")
    if request.param == "hutong":
        with Node(folder) as node:
            yield node.address
        return
    if not os.access(SCRIPT, os.X_OK):
        pytest.skip("no Kafka peer: name its script in HUTONG_TEST_KAFKA_PEER")
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java and mvn are not installed")
    process = ReadyProcess([SCRIPT, "start", "--port", str(free_port())], log_path=str(folder / "log"))
    with process.start(FETCH_S_MAX):
        yield process.fields["0"]


@pytest.fixture
def cluster(broker: str) -> Iterator[Cluster]:
    opened = open_cluster(ClusterSettings(parse_bootstrap(broker)))
    yield opened
    opened.close()


@pytest.fixture
def topic(broker: str, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    create_topic(broker, name, partitions=PARTITIONS, records=0)
    return name


@pytest.fixture(params=["announced", "implicit"])
def worker(broker: str, request: pytest.FixtureRequest) -> Iterator[TransactionClient]:
    """A process that writes: not the one that ends what is written."""
    cluster = open_cluster(ClusterSettings(parse_bootstrap(broker)))
    transactions = TransactionClient(cluster)
    if transactions.produce_version() < IMPLICIT_PRODUCE and request.param == "implicit":
        pytest.skip("this broker wants partitions to be announced")
    if request.param == "announced":
        transactions._produce_version = IMPLICIT_PRODUCE - 1
    yield transactions
    cluster.close()


@pytest.fixture
def driver(cluster: Cluster) -> Committer:
    return Committer(TransactionClient(cluster))


def write(worker: TransactionClient, query: str, suffix: str, topic: str, texts: Sequence[str]) -> TaskTransaction:
    """Run a task, which leaves a transaction open."""
    import pyarrow as pa

    from hutong.pipelines.sink.encode.encoder import Encoder
    from hutong.pipelines.sink.producing import BatchProducer
    from hutong.wire.kafka.batch.compression import Compression

    transaction = OpenTransaction(worker, transactional_id(query, suffix), TIMEOUT_MS)
    data = open_cluster(worker.coordinators.cluster.settings)
    producer = BatchProducer(data, SystemClock(), TIMEOUT_MS, transaction)
    encoder = Encoder(topic, Compression.NONE, 100_000, lambda _: PARTITIONS, 0, SystemClock().wall_ms)
    columns = [pa.array(texts), pa.array([number % PARTITIONS for number in range(len(texts))], pa.int32())]
    for records in encoder.encode(pa.RecordBatch.from_arrays(columns, names=["value", "partition"])):
        producer.send(records)
    producer.flush()
    data.close()
    return TaskTransaction(0, transaction.identity, len(texts))


def batch(query: str, topic: str, number: int, *written: TaskTransaction, run: str = "r") -> WrittenBatch:
    tasks = tuple(one._replace(task=task) for task, one in enumerate(written))
    return WrittenBatch(query, run, BatchDecision(number, len(tasks), tasks), frozenset({topic}), False)


def see(broker: str, topic: str, expected: list[str]) -> None:
    """Kafka answers when an end is decided; its markers follow."""
    until(lambda: seen(broker, topic) == expected, what=f"{expected}", between_s=0.05)


def seen(broker: str, topic: str) -> list[str]:
    messages = [value for number in range(PARTITIONS) for value in values(read_partition(broker, topic, number))]
    return sorted(value.decode() for value in messages)


def test_what_a_worker_wrote_the_driver_commits(
    broker: str, topic: str, worker: TransactionClient, driver: Committer
) -> None:
    first = write(worker, topic, "a", topic, ["1", "2", "3"])
    second = write(worker, topic, "b", topic, ["4", "5"])
    assert worker.outcomes([first.identity]) == {first.identity.transactional_id: TransactionOutcome.OPEN}
    assert seen(broker, topic) == []
    driver.commit(batch(topic, topic, 0, first, second))
    see(broker, topic, ["1", "2", "3", "4", "5"])
    again = write(worker, topic, "a", topic, ["6"])  # the same id, taken once more
    driver.commit(batch(topic, topic, 1, again))
    see(broker, topic, ["1", "2", "3", "4", "5", "6"])


def test_a_batch_that_comes_again_is_left_out(
    broker: str, topic: str, worker: TransactionClient, driver: Committer
) -> None:
    for run in ("r1", "r2"):
        driver.commit(batch(topic, topic, 0, write(worker, topic, run, topic, ["1", "2"]), run=run))
    see(broker, topic, ["1", "2"])
    until(lambda: worker.open_ids(f"hutong-{topic}") == [], what="the end of all transactions", between_s=0.05)


def test_orphans_are_aborted_by_the_first_batch_of_a_run(
    broker: str, topic: str, worker: TransactionClient, driver: Committer
) -> None:
    write(worker, topic, "orphan", topic, ["lost"])
    assert worker.open_ids(f"hutong-{topic}-") == [transactional_id(topic, "orphan")]
    driver.commit(batch(topic, topic, 0, write(worker, topic, "a", topic, ["1"])))
    see(broker, topic, ["1"])
    until(lambda: worker.open_ids(f"hutong-{topic}-") == [], what="the end of all transactions", between_s=0.05)


def test_an_end_that_is_asked_for_again_is_well(topic: str, worker: TransactionClient) -> None:
    one = write(worker, topic, "a", topic, ["1"]).identity
    assert worker.end([one], is_commit=True) == []
    assert worker.end([one], is_commit=True) == []
    assert [error.code for error in worker.end([one], is_commit=False)] != []
    assert worker.outcomes([one]) == {one.transactional_id: TransactionOutcome.COMMITTED}


def test_what_was_taken_over_is_aborted(broker: str, topic: str, worker: TransactionClient, driver: Committer) -> None:
    one = write(worker, topic, "a", topic, ["1"])
    worker.init_producer(one.identity.transactional_id, TIMEOUT_MS)
    assert worker.outcomes([one.identity]) == {one.identity.transactional_id: TransactionOutcome.ABORTED}
    with pytest.raises(HalfDone, match="batch 0 is not committed"):
        driver.commit(batch(topic, topic, 0, one))
    assert seen(broker, topic) == []


def test_a_record_of_many_tasks_is_read_as_it_was_written(
    topic: str, worker: TransactionClient, driver: Committer
) -> None:
    one = write(worker, topic, "a", topic, ["1"])
    ids = [one.identity._replace(transactional_id=transactional_id(topic, f"w-{task}")) for task in range(100)]
    many = batch(topic, topic, 7, *(TaskTransaction(0, identity, 2**40) for identity in ids))
    owner = worker.init_producer(transactional_id(topic, "driver"), TIMEOUT_MS)
    driver._record(owner, many, many.written, None)
    worker.init_producer(owner.transactional_id, TIMEOUT_MS)  # as the next driver does: it waits for what is on its way
    found = driver.recorded(topic)
    assert found is not None
    assert found.decision == many.written
    assert len(ids) > 2 * TRANSACTIONS_PER_NOTE


def test_an_older_driver_cannot_record(topic: str, worker: TransactionClient, driver: Committer) -> None:
    one = batch(topic, topic, 0, write(worker, topic, "a", topic, ["1"]))
    older = worker.init_producer(transactional_id(topic, "driver"), TIMEOUT_MS)
    worker.init_producer(transactional_id(topic, "driver"), TIMEOUT_MS)
    with pytest.raises(TakenOver, match=f"another driver has taken over the query {topic}"):
        driver._record(older, one, one.written, None)
    assert driver.recorded(topic) is None


class Killed(Exception):
    """The driver is no more."""


class DyingTransactions(TransactionClient):
    """A driver's, which dies at one of its requests, before or after the broker has it."""

    def __init__(self, cluster: Cluster, die_at: int) -> None:
        super().__init__(cluster)
        self.left = die_at

    def _step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def init_producer(self, transactional_id: str, timeout_ms: int) -> Identity:
        self._step()
        identity = super().init_producer(transactional_id, timeout_ms)
        self._step()
        return identity

    def commit_offset(
        self, owner: Identity, group: str, partition: TopicPartition, committed: OffsetAndMetadata
    ) -> None:
        super().commit_offset(owner, group, partition, committed)
        self._step()

    def end(self, transactions: Sequence[Identity], *, is_commit: bool, retry_ms: int | None = None) -> list[Refused]:
        refused = []
        for one in transactions:
            self._step()
            refused += super().end([one], is_commit=is_commit, retry_ms=retry_ms)
            self._step()
        return refused


def test_a_version_counts_once_wherever_its_driver_dies(
    broker: str, topic: str, worker: TransactionClient, cluster: Cluster
) -> None:
    """Each step of each commit is the last of a driver once; the job runs again until it ends well."""
    query = application_query("nightly", topic)
    expected: list[str] = []
    for die_at in itertools.count():
        expected += [f"{die_at:02}a", f"{die_at:02}b"]
        dying, is_first = DyingTransactions(cluster, die_at), True
        for attempt in (Committer(dying), Committer(TransactionClient(cluster)), Committer(TransactionClient(cluster))):
            try:
                if not attempt.settle(query, die_at):
                    tasks = [write(worker, query, f"{die_at}{is_first}{text}", topic, [text]) for text in expected[-2:]]
                    attempt.commit_version(batch(query, topic, die_at, *tasks))
            except Killed:
                is_first = False
        see(broker, topic, expected)
        if dying.left > 0:
            break
    assert die_at >= 12, "it died between all steps"
    until(lambda: worker.open_ids(f"hutong-{query}") == [], what="the end of all transactions", between_s=0.05)


def test_a_broker_refuses_a_transaction_that_may_last_too_long(topic: str, worker: TransactionClient) -> None:
    with pytest.raises(Refused, match="INVALID_TRANSACTION_TIMEOUT"):
        worker.init_producer(transactional_id(topic, "a"), 2**31 - 1)


def test_offsets_of_a_group_without_members(cluster: Cluster, topic: str) -> None:
    where = TopicPartition(topic, 1)
    commit_offsets(Coordinators(cluster), f"{topic}-group", {where: 42})
    found = fetch_offsets(TransactionClient(cluster).coordinators, f"{topic}-group")
    assert {place: committed.offset for place, committed in found.items()} == {where: 42}
    assert fetch_offsets(TransactionClient(cluster).coordinators, f"{topic}-nobody") == {}
