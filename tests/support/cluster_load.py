"""What clients do with a cluster while its nodes die, on record: producers, members of a group, transactions.

Strategy: two idempotent producers with acks=all write one topic, which two members of a group read. A transactional
producer writes another, a part of its transactions ends by an abort. In the end every partition is read whole, and all
histories are judged together. Clients look for new leaders often: what is measured here is not their patience.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.support.cluster import Cluster
from tests.support.confluent import DEADLINE_S, offset_of, read_partition, values
from tests.support.load import RETRYING, AcknowledgedLoad, Recorded, RecordedLoad, RecordedMember
from tests.support.log_checker import Anomaly, History, Share, check, merged
from tests.support.waiting import until

TOPIC: Final = "load"
TRANSACTED: Final = "transacted"
PARTITIONS: Final = 4
GROUP: Final = "readers"
PER_SECOND: Final = 1000
RESTLESS: Final[dict[str, Any]] = {
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 2000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
}
IMPATIENT: Final[dict[str, Any]] = {**RESTLESS, "request.timeout.ms": 3000}  # of producers
TRANSACTION_RECORDS: Final = 8
ABORT_EVERY: Final = 3
END_S: Final = 5.0
LOOK_S: Final = 0.05


def create_topics(cluster: Cluster) -> None:
    """Make the topics that the load writes, and return once all of their replicas are in sync."""
    for topic in (TOPIC, TRANSACTED):
        cluster.create_topic(topic, PARTITIONS)


class Transactions:
    """What a transactional producer committed, aborted, or does not know of. Each value ends with `-` and a number."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.unknown: set[bytes] = set()


class TransactedLoad(Recorded, Transactions):
    """One transactional producer."""

    def __init__(self, bootstrap: str) -> None:
        Recorded.__init__(self, "transactor")
        Transactions.__init__(self, "confluent")
        self.successors = 0
        self._bootstrap = bootstrap

    def run(self) -> None:
        numbers = itertools.count()
        while not self._stopping.is_set():
            self._live(numbers)
            self.successors += 1

    def _live(self, numbers: "itertools.count[int]") -> None:
        """One producer, until it stops or must give up, as after a fatal error."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": "transactor",
                "transaction.timeout.ms": 30_000,
                "linger.ms": 1,
                **RETRYING,
                **IMPATIENT,
            }
        )
        if not self._insist(producer.init_transactions):
            return
        while not self._stopping.is_set():
            number = next(numbers)
            sent = {b"t%d-%d" % (number, part) for part in range(TRANSACTION_RECORDS)}
            if not self._transact(producer, sorted(sent), is_commit=number % ABORT_EVERY != 0):
                return

    def _transact(self, producer: Producer, sent: list[bytes], *, is_commit: bool) -> bool:
        """One transaction; False where the producer can do no more."""
        producer.begin_transaction()
        for part, value in enumerate(sent):
            producer.produce(TRANSACTED, value, partition=part % PARTITIONS)
        producer.flush(END_S)
        end = producer.commit_transaction if is_commit else producer.abort_transaction
        try:
            is_done = self._insist(end)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted.update(sent)
            return self._insist(producer.abort_transaction)
        if not is_done:
            (self.unknown if is_commit else self.aborted).update(sent)
        elif is_commit:
            self.committed.update(sent)
        else:
            self.aborted.update(sent)
        return is_done

    def _insist(self, call: Any) -> bool:
        """Until it is done; False after an error that a new producer alone can mend. Raises KafkaException."""
        for _ in range(round(4 * DEADLINE_S / END_S)):
            try:
                call(END_S)
            except KafkaException as error:
                if error.args[0].fatal():
                    return False
                if not error.args[0].retriable():
                    raise
            else:
                return True
        raise AssertionError(f"{call.__name__} did not end")


def transaction_problems(bootstrap: str, transactions: Sequence[Transactions]) -> list[str]:
    """The records that a committed reader got wrongly, or missed."""
    # A commit is answered once it is decided. While leaders change, its markers may come a moment later.
    until(lambda: have_all_ended(bootstrap), what="the markers of all transactions", between_s=LOOK_S)
    seen: Counter[bytes] = Counter()
    for partition in range(PARTITIONS):
        seen.update(values(read_calmly(bootstrap, TRANSACTED, partition, isolation_level="read_committed")))
    committed, aborted, unknown = (
        set().union(*sets)
        for sets in zip(*((each.committed, each.aborted, each.unknown) for each in transactions), strict=True)
    )
    found = [f"committed, and not there: {value!r}" for value in committed - seen.keys()]
    found += [f"there {count} times: {value!r}" for value, count in seen.items() if count > 1]
    found += [f"aborted, and there: {value!r}" for value in aborted & seen.keys()]
    found += [f"there, and never sent: {value!r}" for value in seen.keys() - (committed | aborted | unknown)]
    parts = Counter(value.rpartition(b"-")[0] for value in unknown & seen.keys())
    return found + [
        f"{count} of {TRANSACTION_RECORDS} are there: {name!r}"
        for name, count in parts.items()
        if count < TRANSACTION_RECORDS
    ]


def have_all_ended(bootstrap: str) -> bool:
    """True where no partition has records of a transaction that is open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest = {TopicPartition(TRANSACTED, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    ends = []
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        try:
            found = admin.list_offsets(latest, isolation_level=level, request_timeout=END_S)
            ends.append([future.result().offset for future in found.values()])
        except KafkaException as error:
            # A leader moves back to its preferred node. librdkafka does not call that retriable.
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False
    return ends[0] == ends[1]


def final_read(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """A partition from start to end."""
    messages = read_calmly(bootstrap, topic, partition)
    return list(zip(map(offset_of, messages), values(messages), strict=True))


def read_calmly(bootstrap: str, topic: str, partition: int, **settings: Any) -> list[Message]:
    """A partition from start to end, again from the start where a leader moves back to its preferred node meanwhile."""

    def read() -> tuple[list[Message]] | None:
        try:
            return (read_partition(bootstrap, topic, partition, **settings),)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return None

    found = until(read, what=f"a whole read of {topic}/{partition}", between_s=LOOK_S)
    assert found is not None
    return found[0]


class ClusterLoad:
    """All of it while entered. The topics must be there."""

    def __init__(self, bootstrap: str, per_second: int = PER_SECOND) -> None:
        self._bootstrap = bootstrap
        self.loads: list[AcknowledgedLoad] = [
            RecordedLoad(bootstrap, TOPIC, PARTITIONS, label, per_second, **{**IMPATIENT, "compression.type": codec})
            for label, codec in (("first", "none"), ("second", "lz4"))
        ]
        self.members = [RecordedMember(bootstrap, GROUP, [TOPIC], f"member-{number}", **RESTLESS) for number in (1, 2)]
        self.transactions = TransactedLoad(bootstrap)
        self._entered = contextlib.ExitStack()

    @property
    def all_transactions(self) -> Sequence[Transactions]:
        return [self.transactions]

    def __enter__(self) -> Self:
        for recorded in (*self.loads, *self.members, self.transactions):
            self._entered.enter_context(recorded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    def wait_for_progress(self, records: int = 300, deadline_s: float = DEADLINE_S) -> None:
        """Return when every producer has so many further records acknowledged, and transactions are committed."""
        before = [len(each.committed) for each in self.all_transactions]
        self.wait_for_records(records, deadline_s)

        for each, had in zip(self.all_transactions, before, strict=True):
            what = f"a transaction committed by {each.label}"
            until(lambda: len(each.committed) > had, what=what, deadline_s=deadline_s, between_s=LOOK_S)  # noqa: B023

    def wait_for_records(self, records: int, deadline_s: float) -> None:
        """Return when every producer has so many further records acknowledged."""
        for load in self.loads:
            load.wait_for_acknowledged(records, deadline_s)

    @property
    def history(self) -> History:
        return merged(recorded.history for recorded in (*self.loads, *self.members))

    def anomalies(self) -> list[Anomaly | str]:
        """Reads everything and judges."""
        history = self.history
        final = {(TOPIC, partition): final_read(self._bootstrap, TOPIC, partition) for partition in range(PARTITIONS)}
        found: list[Anomaly | str] = [*check(history, final_reads=final, final_commits=self._commits(history))]
        for load in self.loads:
            sent = sum(len(sent) for producers in load.history.invoked.values() for sent in producers.values())
            if load.errors or load.acknowledged != sent:
                found.append(f"{sent - load.acknowledged} of {sent} never acknowledged: {load.errors[:3]}")
        return found + transaction_problems(self._bootstrap, self.all_transactions)

    def _commits(self, history: History) -> dict[Share, int]:
        places = [TopicPartition(*place) for group, place in history.committed if group == GROUP]
        asker = Consumer({"bootstrap.servers": self._bootstrap, "group.id": GROUP, **RESTLESS})
        try:
            found = asker.committed(places, DEADLINE_S) if places else []
            return {(GROUP, (place.topic, place.partition)): max(0, place.offset) for place in found}
        finally:
            asker.close()
