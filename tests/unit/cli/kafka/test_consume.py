"""When reading ends, with a client whose events a test writes down."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from hutong.cli.kafka.consume import IDLE_POLLS_MAX, _until_done, _until_ended
from hutong.cli.kafka.positions import PartitionRange
from hutong.foundation.errors import UsageError


class Event:
    """A record at an offset, or an error event (by default the end of the partition)."""

    def __init__(self, partition: int, offset: int | None = None, code: int = KafkaError._PARTITION_EOF) -> None:
        self._partition, self._offset = partition, offset
        self._error = None if offset is not None else KafkaError(code)

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


class Consumer:
    """Hands out the batches it was given; asking for more than there are is the test's failure."""

    def __init__(self, *batches: list[Event], assigned: tuple[int, ...] = (0,)) -> None:
        self._batches = list(batches)
        self._assigned = assigned
        self.stored: list[int | None] = []
        self.idle_polls = 0
        self.reached = 0
        self.high: int | None = 9  # None: the broker cannot be asked

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.high is None:
            self.high = 9
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return 0, self.high

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(at.topic, at.partition, self.reached) for at in partitions]

    def consume(self, count: int, timeout: float) -> list[Event]:
        if self.idle_polls:
            self.idle_polls -= 1
            return []
        batch, self._batches[0] = self._batches[0][:count], self._batches[0][count:]
        if not self._batches[0]:
            self._batches.pop(0)
        return batch

    def assignment(self) -> list[Any]:
        return [type("At", (), {"partition": number}) for number in self._assigned]

    def store_offsets(self, event: Event) -> None:
        self.stored.append(event.offset())


def offsets(batches: Any) -> list[int | None]:
    return [event.offset() for batch in batches for event in batch]


def test_a_fixed_span_ends_at_the_ends_seen_first() -> None:
    consumer = Consumer([Event(0, 5), Event(1, 7)], [Event(0, 6), Event(0, 7)])
    spans = {0: PartitionRange(5, 7), 1: PartitionRange(7, 8)}
    assert offsets(_until_done(consumer, "t", spans, None)) == [5, 7, 6]


def test_a_span_whose_last_offset_holds_no_record_ends_with_the_end_event() -> None:
    consumer = Consumer([Event(0, 5)], [Event(0)])
    assert offsets(_until_done(consumer, "t", {0: PartitionRange(5, 9)}, None)) == [5]


def test_an_empty_span_reads_nothing() -> None:
    assert offsets(_until_done(Consumer(), "t", {}, None)) == []


def test_following_goes_on_past_the_end_until_enough() -> None:
    consumer = Consumer([Event(0, 5), Event(0)], [Event(0, 6), Event(0, 7)])
    assert offsets(_until_done(consumer, "t", None, 2)) == [5, 6]


def test_a_member_ends_when_each_of_its_partitions_ended_last() -> None:
    consumer = Consumer([Event(0, 1), Event(0), Event(0, 2), Event(1)], [Event(0)], assigned=(0, 1))
    assert offsets(_until_ended(consumer, "t", follow=False, maximum=None)) == [1, 2]
    assert consumer.stored == [1, 2]


def test_a_member_without_partitions_waits_for_some() -> None:
    consumer = Consumer([Event(0)], [Event(0, 1)], assigned=())
    assert offsets(_until_ended(consumer, "t", follow=False, maximum=1)) == [1]


def test_an_offset_is_stored_only_after_its_record_was_handed_over() -> None:
    consumer = Consumer([Event(0, 1)], [Event(0)])
    batches = _until_ended(consumer, "t", follow=False, maximum=None)
    next(batches)
    assert consumer.stored == []
    assert list(batches) == [[]]
    assert consumer.stored == [1]


def test_any_other_error_event_ends_it_with_a_sentence() -> None:
    consumer = Consumer([Event(0, code=KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(UsageError, match="The broker refused the topic t"):
        list(_until_done(consumer, "t", None, None))


@pytest.mark.parametrize("reached", [5, -1001])
def test_a_partition_that_has_more_and_gives_nothing_ends_it_with_a_sentence(reached: int) -> None:
    """librdkafka asks again and again for a batch that it cannot read, and says nothing."""
    for has_group in (False, True):
        consumer = Consumer()
        consumer.idle_polls, consumer.reached = IDLE_POLLS_MAX, reached
        in_group = _until_ended(consumer, "t", follow=False, maximum=None)
        by_hand = _until_done(consumer, "t", {0: PartitionRange(5, 9)}, None)
        with pytest.raises(UsageError, match=r"Partition 0 of t cannot be read at .* ends at 9") as told:
            list(in_group if has_group else by_hand)
        assert told.value.exit_code == 65


def test_a_broker_that_is_away_or_has_no_more_is_waited_for() -> None:
    for high, reached in ((None, 5), (5, 5)):
        consumer = Consumer([Event(0, 5)], [Event(0)])
        consumer.idle_polls, consumer.high, consumer.reached = IDLE_POLLS_MAX, high, reached
        assert offsets(_until_done(consumer, "t", {0: PartitionRange(5, 9)}, None)) == [5]


def test_a_short_silence_is_no_matter() -> None:
    consumer = Consumer([Event(0, 5)], [Event(0)])
    consumer.idle_polls, consumer.reached = IDLE_POLLS_MAX - 1, 5
    assert offsets(_until_done(consumer, "t", {0: PartitionRange(5, 9)}, None)) == [5]
