"""Delivery against brokers that refuse, go away after taking a batch, and move."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.foundation.errors import ProtocolError, Refused, UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.errors import Unavailable
from hutong.pipelines.sink import producing
from hutong.pipelines.sink.encode.encoder import EncodedRecords
from hutong.pipelines.sink.producing import SEQUENCE_MASK, BatchProducer
from hutong.wire.kafka.apis.k00_produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import HEADER_BYTES, BatchHeader, is_intact, parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """The records that a broker with idempotent producers stores: a sequence seen before is a duplicate."""

    def __init__(self) -> None:
        self.stored: dict[TopicPartition, list[int]] = {}
        self.requests: list[list[TopicPartition]] = []
        self.identities = 0
        self.faults: list[Callable[[], int]] = []
        """Each is called for one request, in turn; what it returns is the error code of its partitions."""
        self.lose_answers = 0

    def answer(self, request: Any) -> Any:
        if isinstance(request, InitProducerIdRequest):
            self.identities += 1
            return InitProducerIdResponse(producer_id=40 + self.identities, producer_epoch=0)
        assert request.acks == -1
        code = self.faults.pop(0)() if self.faults else ErrorCode.NONE
        topics = []
        for topic in request.topic_data:
            partitions = [(TopicPartition(topic.name, data.index), data.records) for data in topic.partition_data]
            self.requests.append([partition for partition, _ in partitions])
            answers = [
                PartitionProduceResponse(partition.partition, code or self.store(partition, records))
                for partition, records in partitions
            ]
            topics.append(TopicProduceResponse(topic.name, partition_responses=answers))
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the answer was lost")
        return ProduceResponse(topics)

    def store(self, partition: TopicPartition, records: memoryview) -> int:
        header = checked(records)
        sequences = self.stored.setdefault(partition, [])
        if header.base_sequence in sequences:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        sequences.append(header.base_sequence)
        return ErrorCode.NONE


def checked(records: memoryview) -> BatchHeader:
    header = parse_batch_header(records)
    assert is_intact(records, header)
    return header


def batch(partition: TopicPartition, count: int = 10, size: int = 100) -> EncodedRecords:
    return EncodedRecords(partition, memoryview(bytearray(HEADER_BYTES + size)), count, Compression.NONE)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def brokers(logs: Logs) -> FakeBrokers:
    brokers = FakeBrokers({P0: 1, P1: 2})
    brokers.answers = {0: logs.answer, 1: logs.answer, 2: logs.answer}
    return brokers


@pytest.fixture
def producer(brokers: FakeBrokers) -> BatchProducer:
    return BatchProducer(brokers.cluster(), brokers.clock, 30_000)


def test_batches_of_a_partition_are_stored_in_order_with_rising_sequences(producer: BatchProducer, logs: Logs) -> None:
    for count in (10, 5, 1):
        producer.send(batch(P0, count))
        producer.send(batch(P1, count))
    producer.flush()
    assert logs.stored == {P0: [0, 10, 15], P1: [0, 10, 15]}
    assert logs.identities == 1


def test_an_answer_that_has_come_lets_the_next_request_leave(
    producer: BatchProducer, brokers: FakeBrokers, logs: Logs
) -> None:
    producer.send(batch(P0))
    for _, connection in brokers.opened:
        connection.has_answer = True
    producer.send(batch(P0))
    producer.send(batch(P0))
    assert logs.stored == {P0: [0, 10]}
    producer.flush()
    assert logs.stored == {P0: [0, 10, 20]}


def test_one_request_carries_the_partitions_of_one_leader(
    producer: BatchProducer, brokers: FakeBrokers, logs: Logs
) -> None:
    brokers.leaders = {P0: 1, P1: 1}
    for _ in range(2):
        producer.send(batch(P0))
        producer.send(batch(P1))
    producer.flush()
    assert logs.requests == [[P0], [P0, P1], [P1]]  # the first left at once, the others gathered meanwhile


def test_an_answer_that_is_lost_stores_nothing_twice(producer: BatchProducer, logs: Logs) -> None:
    logs.lose_answers = 2
    for _ in range(3):
        producer.send(batch(P0))
    producer.flush()
    assert logs.stored == {P0: [0, 10, 20]}
    assert len(logs.requests) > 3


def test_a_leader_that_moves_is_followed(producer: BatchProducer, brokers: FakeBrokers, logs: Logs) -> None:
    def move() -> int:
        brokers.leaders = {P0: 2, P1: 2}
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    logs.faults = [move]
    producer.send(batch(P0))
    producer.flush()
    assert logs.stored == {P0: [0]}
    assert brokers.connection(2).asked


def test_a_partition_without_leader_holds_up_no_other(
    producer: BatchProducer, brokers: FakeBrokers, logs: Logs
) -> None:
    brokers.leaders = {P0: 1, P1: -1}

    def elect(seconds: float) -> None:
        brokers.leaders = {P0: 1, P1: 2}

    producer._cluster._sleep = elect
    producer.send(batch(P0))
    producer.send(batch(P1))
    producer.send(batch(P0))
    producer.flush()
    assert logs.stored == {P0: [0, 10], P1: [0]}


def test_a_refusal_that_will_not_pass_is_raised(producer: BatchProducer, logs: Logs) -> None:
    logs.faults = [lambda: ErrorCode.MESSAGE_TOO_LARGE]
    producer.send(batch(P0))
    with pytest.raises(Refused, match="records for t-0 were not taken: MESSAGE_TOO_LARGE"):
        producer.flush()


def test_what_is_not_answered_for_is_refused(producer: BatchProducer, brokers: FakeBrokers, logs: Logs) -> None:
    producer.send(batch(P1))
    producer.flush()
    brokers.answers[1] = lambda request: ProduceResponse()
    producer.send(batch(P0))
    with pytest.raises(ProtocolError, match="did not answer for t-0"):
        producer.flush()


def test_sending_waits_once_too_much_is_queued(
    producer: BatchProducer, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "QUEUED_BYTES_MAX", 1000)
    for _ in range(20):
        producer.send(batch(P0, size=300))
        assert producer._queued_bytes <= 1000
    assert len(logs.stored[P0]) >= 15
    producer.flush()
    assert logs.stored == {P0: list(range(0, 200, 10))}


def test_sequences_wrap_to_zero(producer: BatchProducer, logs: Logs) -> None:
    producer.send(batch(P0, SEQUENCE_MASK))
    producer.send(batch(P0, 2))
    producer.send(batch(P0, 1))
    producer.flush()
    assert logs.stored == {P0: [0, SEQUENCE_MASK, 1]}


def test_batches_carry_the_time_they_are_sent(producer: BatchProducer, brokers: FakeBrokers) -> None:
    producer.send(batch(P0))
    (request,) = brokers.connection(1).asked
    header = checked(request.topic_data[0].partition_data[0].records)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (brokers.clock.wall_ms(),) * 2
    assert (header.producer_id, header.producer_epoch) == (41, 0)


def test_a_time_that_a_topic_refuses_is_told(producer: BatchProducer, logs: Logs) -> None:
    logs.faults = [lambda: ErrorCode.INVALID_TIMESTAMP]
    producer.send(batch(P0))
    with pytest.raises(UsageError, match=r"column timestamp holds a time that topic t refuses.*timestamp.after.max.ms"):
        producer.flush()
