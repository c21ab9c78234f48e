"""The reader of a partition against brokers that lead, move, forget and lag."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.pipelines.batches import record_set
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.errors import DataLost, Unavailable
from hutong.pipelines.source.decode.index import index_batches
from hutong.pipelines.source.fetching import FetchSettings, PartitionReader
from hutong.wire.kafka.apis.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from hutong.wire.kafka.batch.records import Record
from hutong.wire.kafka.error_codes import ErrorCode

P = TopicPartition("t", 0)
BATCH_RECORDS = 10


class Log:
    """A partition of batches of ten records; each fetch gets two of them."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.fetched: list[int] = []
        self.faults: list[Callable[[], Any]] = []
        """Each is called instead of one answer, in turn; what it returns is the answer's error code."""

    def answer(self, request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            asked = request.topics[0].partitions[0].timestamp
            found = ListOffsetsPartitionResponse(0, 0, -1, self.start if asked == -2 else self.end)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [found])])
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetched.append(offset)
        code = self.faults.pop(0)() if self.faults else ErrorCode.NONE
        if not code and not self.start <= offset <= self.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        records = b"" if code else self.batches_from(offset)
        data = PartitionData(0, code, self.end, self.end, self.start, records=memoryview(records))
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])

    def batches_from(self, offset: int) -> bytes:
        content, base = b"", offset - offset % BATCH_RECORDS
        for first in range(base, min(base + 2 * BATCH_RECORDS, self.end), BATCH_RECORDS):
            content += record_set([[Record(value=b"v")] * min(BATCH_RECORDS, self.end - first)], first)
        return content


def reader(brokers: FakeBrokers, first: int, end: int, **settings: Any) -> PartitionReader:
    return PartitionReader(brokers.cluster(), P, first, end, FetchSettings(**settings), index_batches)


def read(brokers: FakeBrokers, first: int, end: int, **settings: Any) -> list[int]:
    """The offset after each record set."""
    return [batches.next_offset for _, batches, _ in reader(brokers, first, end, **settings)]


@pytest.fixture
def log() -> Log:
    return Log(0, 95)


@pytest.fixture
def brokers(log: Log) -> FakeBrokers:
    brokers = FakeBrokers({P: 1})
    brokers.answers = {0: log.answer, 1: log.answer, 2: log.answer}
    return brokers


def test_record_sets_cover_the_range(brokers: FakeBrokers, log: Log) -> None:
    assert read(brokers, 13, 60) == [30, 50, 70]
    assert log.fetched == [13, 30, 50]


def test_the_next_fetch_is_sent_before_the_set_is_handed_out(brokers: FakeBrokers) -> None:
    sets = iter(reader(brokers, 0, 60))
    next(sets)
    assert [ask.topics[0].partitions[0].fetch_offset for ask in brokers.connection(1).asked] == [0, 20]


def test_a_reader_given_up_drops_the_answer_on_its_way(brokers: FakeBrokers) -> None:
    sets = iter(reader(brokers, 0, 60))
    next(sets)
    connection = brokers.connection(1)
    sets.close()  # type: ignore[attr-defined]
    assert connection.is_closed


def test_nothing_is_asked_beyond_the_end(brokers: FakeBrokers) -> None:
    assert read(brokers, 80, 90) == [95]
    assert brokers.connection(1).is_idle


def test_an_empty_range_asks_nothing(brokers: FakeBrokers, log: Log) -> None:
    assert read(brokers, 40, 40) == []
    assert log.fetched == []


def test_a_leader_that_moves_is_followed(brokers: FakeBrokers, log: Log) -> None:
    def move() -> int:
        brokers.leaders = {P: 2}
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    log.faults = [lambda: 0, move]
    assert read(brokers, 0, 60) == [20, 40, 60]
    assert log.fetched == [0, 20, 20, 40]
    assert len(brokers.connection(2).asked) == 2


def test_a_topic_deleted_meanwhile_is_lost_data_unless_that_is_accepted(brokers: FakeBrokers, log: Log) -> None:
    def delete() -> int:
        brokers.leaders = {}
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    leaders = brokers.leaders
    log.faults = [lambda: 0, delete]
    with pytest.raises(DataLost, match=r"t-0 was deleted while it was read, at offset 20"):
        read(brokers, 0, 60)
    brokers.leaders, log.faults = leaders, [lambda: 0, delete]
    assert read(brokers, 0, 60, fail_on_data_loss=False) == [20]


def test_a_topic_that_was_deleted_before_is_lost_data_unless_that_is_accepted(brokers: FakeBrokers) -> None:
    brokers.leaders = {}
    with pytest.raises(DataLost, match="t-0 was deleted"):
        read(brokers, 0, 60)
    assert read(brokers, 0, 60, fail_on_data_loss=False) == []


def test_a_broker_that_forgot_a_partition_is_asked_again(brokers: FakeBrokers, log: Log) -> None:
    log.faults = [lambda: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert read(brokers, 0, 30) == [20, 40]


def test_a_connection_that_breaks_is_opened_again_where_it_was(brokers: FakeBrokers, log: Log) -> None:
    def break_off() -> int:
        raise Unavailable("gone")

    log.faults = [lambda: 0, break_off, lambda: 0, break_off]
    assert read(brokers, 0, 60) == [20, 40, 60]
    assert log.fetched == [0, 20, 20, 40, 40]


def test_offsets_that_are_gone_fail_the_query(brokers: FakeBrokers, log: Log) -> None:
    log.start = 50
    with pytest.raises(DataLost, match=r"offset 20 of t-0 is gone.*failOnDataLoss to false"):
        read(brokers, 20, 90)


def test_offsets_that_are_gone_are_skipped_where_that_is_accepted(brokers: FakeBrokers, log: Log) -> None:
    log.start = 50
    assert read(brokers, 20, 90, fail_on_data_loss=False) == [70, 90]
    assert read(brokers, 20, 40, fail_on_data_loss=False) == []


def test_a_topic_made_anew_holds_nothing_of_the_range(brokers: FakeBrokers, log: Log) -> None:
    log.end = 10
    assert read(brokers, 20, 40, fail_on_data_loss=False) == []


def test_a_replica_that_lags_is_waited_for(brokers: FakeBrokers, log: Log) -> None:
    log.end = 20

    def catch_up(seconds: float) -> None:
        log.end = 95

    cluster = brokers.cluster()
    cluster._sleep = catch_up
    sets = PartitionReader(cluster, P, 0, 60, FetchSettings(), index_batches)
    assert [batches.next_offset for _, batches, _ in sets] == [20, 40, 60]


def test_a_log_that_ends_early_for_good_is_told(brokers: FakeBrokers, log: Log) -> None:
    log.end = 20
    with pytest.raises(Refused, match="t-0 ends at offset 20, before the planned end 60"):
        read(brokers, 0, 60)


def test_a_tail_that_compaction_took_ends_the_range(brokers: FakeBrokers, log: Log) -> None:
    batches_from = log.batches_from
    log.batches_from = lambda offset: batches_from(offset) if offset < 40 else b""  # type: ignore[method-assign]
    assert read(brokers, 0, 60) == [20, 40]
    assert log.fetched == [0, 20, 40, 40, 40]


@pytest.mark.parametrize(
    ("content", "problem"), [(b"\0" * 70, "not RecordBatch v2"), (b"\0" * 20, "less than one whole")]
)
def test_nonsense_is_refused(brokers: FakeBrokers, log: Log, content: bytes, problem: str) -> None:
    log.batches_from = lambda offset: content  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match=problem):
        read(brokers, 0, 60)


def test_batches_from_before_the_position_are_refused(brokers: FakeBrokers, log: Log) -> None:
    log.batches_from = lambda offset: record_set([[Record(value=b"v")]], 3)  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="older than asked for"):
        read(brokers, 30, 60)


def test_another_partition_in_the_answer_is_refused(brokers: FakeBrokers) -> None:
    brokers.answers[1] = lambda request: FetchResponse()
    with pytest.raises(ProtocolError, match="did not answer for t-0"):
        read(brokers, 0, 60)
