"""When reading ends, with a client whose events a test writes down."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from hutong.cli.consume import _until_done, _until_ended
from hutong.cli.positions import Span
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

    def consume(self, count: int, timeout: float) -> list[Event]:
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
    spans = {0: Span(5, 7), 1: Span(7, 8)}
    assert offsets(_until_done(consumer, "t", spans, None)) == [5, 7, 6]


def test_a_span_whose_last_offset_holds_no_record_ends_with_the_end_event() -> None:
    consumer = Consumer([Event(0, 5)], [Event(0)])
    assert offsets(_until_done(consumer, "t", {0: Span(5, 9)}, None)) == [5]


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
