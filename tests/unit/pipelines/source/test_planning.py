from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.fakes import FakeBrokers
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, TopicPartition
from hutong.pipelines.errors import DataLost
from hutong.pipelines.source.offset_rules import OffsetRule
from hutong.pipelines.source.options import Subscription
from hutong.pipelines.source.planning import (
    from_json,
    inside_log,
    ranges_between,
    ranges_from,
    resolve,
    settled,
    subscribed,
    to_json,
    with_new,
)
from hutong.pipelines.source.splitting import OffsetRange
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.sampled_from([A0, A1, B0])
positions = st.dictionaries(partitions, st.integers(0, 10**6), min_size=1)


@pytest.fixture
def brokers() -> FakeBrokers:
    """Partitions hold offsets 10 to 99, written at the second of their number."""

    def offset_at(timestamp_ms: int) -> int:
        if timestamp_ms in (EARLIEST, LATEST):
            return 10 if timestamp_ms == EARLIEST else 100
        return max(timestamp_ms, 10) if timestamp_ms < 100 else -1

    def answer(request: Any) -> ListOffsetsResponse:
        topics = [
            ListOffsetsTopicResponse(
                topic.name,
                [
                    ListOffsetsPartitionResponse(p.partition_index, 0, -1, offset_at(p.timestamp))
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    brokers = FakeBrokers({A0: 0, A1: 0, B0: 0, ("__state", 0): 0})
    brokers.answers[0] = answer
    return brokers


@pytest.mark.parametrize(
    ("subscription", "found"),
    [
        (Subscription(names=("b", "a")), [A0, A1, B0]),
        (Subscription(pattern="[ab]"), [A0, A1, B0]),
        (Subscription(pattern="a|_.*"), [A0, A1]),
        (Subscription(pattern="nothing"), []),
        (Subscription(assigned=(B0, A1, A1)), [A1, B0]),
    ],
)
def test_a_subscription_becomes_partitions(
    brokers: FakeBrokers, subscription: Subscription, found: list[TopicPartition]
) -> None:
    assert subscribed(brokers.cluster(), subscription) == found


def test_what_does_not_exist_is_told(brokers: FakeBrokers) -> None:
    with pytest.raises(UsageError, match="topic c, d does not exist"):
        subscribed(brokers.cluster(), Subscription(names=("a", "d", "c")))
    with pytest.raises(UsageError, match="partition a-7 does not exist"):
        subscribed(brokers.cluster(), Subscription(assigned=(A0, TopicPartition("a", 7))))


def test_what_does_not_exist_any_more_may_be_left_out(brokers: FakeBrokers) -> None:
    assert subscribed(brokers.cluster(), Subscription(names=("a", "d")), missing_ok=True) == [A0, A1]
    assigned = Subscription(assigned=(A0, TopicPartition("a", 7)))
    assert subscribed(brokers.cluster(), assigned, missing_ok=True) == [A0]


@pytest.mark.parametrize(
    ("rule", "offsets"),
    [
        (OffsetRule(EARLIEST), [10, 10]),
        (OffsetRule(LATEST), [100, 100]),
        (OffsetRule(EARLIEST, offsets={A0: 42, A1: LATEST}), [42, 100]),
        (OffsetRule(EARLIEST, timestamp_ms=50), [50, 50]),
        (OffsetRule(LATEST, timestamps_ms={A0: 5, A1: 60}), [10, 60]),
        (OffsetRule(LATEST, timestamps_ms={A0: 50, A1: 500}, must_match=False), [50, 100]),
    ],
)
def test_a_rule_becomes_offsets(brokers: FakeBrokers, rule: OffsetRule, offsets: list[int]) -> None:
    found = resolve(brokers.cluster(), [A0, A1], rule)
    assert [found[A0], found[A1]] == offsets


def test_a_start_later_than_every_record_is_an_error(brokers: FakeBrokers) -> None:
    with pytest.raises(UsageError, match="no record of a-0, a-1 is as young as option startingOffsets asks"):
        resolve(brokers.cluster(), [A0, A1], OffsetRule(LATEST, timestamp_ms=500))


def test_offsets_must_be_given_for_exactly_the_partitions_read(brokers: FakeBrokers) -> None:
    with pytest.raises(UsageError, match="a-1 is missing and b-0 is not read by this query"):
        resolve(brokers.cluster(), [A0, A1], OffsetRule(EARLIEST, offsets={A0: 1, B0: 1}))


def test_ranges_lie_between_two_positions() -> None:
    start, end = {A0: 5, A1: 7}, {A0: 9, A1: 7, B0: 3}
    assert ranges_between(start, end, True) == [OffsetRange(A0, 5, 9), OffsetRange(B0, 0, 3)]


def test_a_batch_begins_before_it_ends() -> None:
    starting, ending = OffsetRule(EARLIEST), OffsetRule(LATEST, option="endingTimestamp")
    assert ranges_from({B0: 1, A0: 5}, {A0: 9, B0: 1}, starting, ending) == [(A0, 5, 9), (B0, 1, 1)]
    with pytest.raises(UsageError, match="begins at offset 5 of a-0, which lies after offset 4 where endingTime"):
        ranges_from({A0: 5}, {A0: 4}, starting, ending)


def test_partitions_that_vanish_or_go_back_are_lost_data_unless_that_is_accepted() -> None:
    with pytest.raises(DataLost, match="partition a-1 is gone"):
        ranges_between({A0: 5, A1: 7}, {A0: 9}, True)
    with pytest.raises(DataLost, match="the offset of a-0 was changed from 5 to 4"):
        ranges_between({A0: 5}, {A0: 4}, True)
    assert ranges_between({A0: 5, A1: 7}, {A0: 4}, False) == []


@pytest.mark.parametrize(
    ("given_offsets", "held", "sentence"),
    [
        ({A0: 9, A1: 100}, [10, 100], "startingOffsets asks for offset 9 of a-0, which begins at 10"),
        ({A0: 10, A1: 101}, [10, 100], "offset 101 of a-1, which begins at 10 and ends at 100"),
    ],
)
def test_numbers_outside_the_log_are_lost_data_unless_that_is_accepted(
    brokers: FakeBrokers, given_offsets: dict[TopicPartition, int], held: list[int], sentence: str
) -> None:
    rule = OffsetRule(EARLIEST, offsets=given_offsets)
    with pytest.raises(DataLost, match=sentence):
        inside_log(brokers.cluster(), dict(given_offsets), rule, True)
    found = inside_log(brokers.cluster(), dict(given_offsets), rule, False)
    assert [found[A0], found[A1]] == held


def test_what_is_not_committed_is_inside_the_log_of_a_reader_of_committed_records(brokers: FakeBrokers) -> None:
    rule = OffsetRule(EARLIEST, offsets={A0: 150})
    assert inside_log(brokers.cluster(read_committed=True), {A0: 150}, rule, True) == {A0: 150}


def test_numbers_are_not_asked_for_where_none_are_given(brokers: FakeBrokers) -> None:
    cluster = brokers.cluster()
    assert inside_log(cluster, {A0: 7}, OffsetRule(EARLIEST, offsets={A0: LATEST}), True) == {A0: 7}
    assert brokers.opened == []


def test_partitions_that_came_since_are_read_from_their_beginning_unless_that_is_gone(brokers: FakeBrokers) -> None:
    with pytest.raises(DataLost, match="a partition was added and b-0 starts from offset 10 instead of 0"):
        with_new(brokers.cluster(), {A0: 42}, [A0, B0], True)
    assert with_new(brokers.cluster(), {A0: 42}, [A0, B0], False) == {A0: 42, B0: 10}


def test_a_contradiction_is_looked_at_again_until_it_stays() -> None:
    answers: list[dict[TopicPartition, int]] = [{A0: 3}, {A0: 3, A1: 9}, {A0: 5, A1: 9}, {A0: 6, A1: 9}]

    def settle(known: dict[TopicPartition, int], again: int) -> tuple[dict[TopicPartition, int], int]:
        """The findings, and the number of pauses before them."""
        looks, pauses = iter(answers), 0

        def pause() -> None:
            nonlocal pauses
            pauses += 1

        return settled(lambda: next(looks), known, again, pause), pauses

    assert settle({A0: 5, A1: 9}, 5) == (answers[2], 2)
    assert settle({A0: 7}, 2) == (answers[2], 2)
    assert settle({A0: 3}, 5) == (answers[0], 0)
    assert settle({}, 5) == (answers[0], 0)


@unhurried
@given(positions)
def test_offsets_go_through_a_checkpoint_unchanged(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(to_json(offsets)) == offsets
    assert to_json({A1: 2, A0: 1, B0: 3}) == {"a": {"0": 1, "1": 2}, "b": {"0": 3}}
