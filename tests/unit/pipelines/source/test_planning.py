from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.fakes import FakeBrokers
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, TopicPartition
from hutong.pipelines.errors import DataLost
from hutong.pipelines.source.options import OffsetRule, Subscription
from hutong.pipelines.source.planning import (
    OffsetRange,
    from_json,
    limit,
    ranges_between,
    resolve,
    split,
    subscribed,
    to_json,
)
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
    with pytest.raises(UsageError, match="no record of a-0, a-1 is as young"):
        resolve(brokers.cluster(), [A0, A1], OffsetRule(LATEST, timestamp_ms=500))


def test_offsets_must_be_given_for_exactly_the_partitions_read(brokers: FakeBrokers) -> None:
    with pytest.raises(UsageError, match="these differ: a-1, b-0"):
        resolve(brokers.cluster(), [A0, A1], OffsetRule(EARLIEST, offsets={A0: 1, B0: 1}))


def test_ranges_lie_between_two_positions() -> None:
    start, end = {A0: 5, A1: 7}, {A0: 9, A1: 7, B0: 3}
    assert ranges_between(start, end, True) == [OffsetRange(A0, 5, 9), OffsetRange(B0, 0, 3)]


def test_partitions_that_vanish_or_go_back_are_lost_data_unless_that_is_accepted() -> None:
    with pytest.raises(DataLost, match="partition a-1 is gone"):
        ranges_between({A0: 5, A1: 7}, {A0: 9}, True)
    with pytest.raises(DataLost, match="partition a-0 ends before"):
        ranges_between({A0: 5}, {A0: 4}, True)
    assert ranges_between({A0: 5, A1: 7}, {A0: 4}, False) == []


@unhurried
@given(
    st.lists(st.builds(OffsetRange, partitions, st.integers(0, 50), st.integers(51, 10**5)), max_size=4),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1000, 10**5),
)
def test_pieces_cover_the_ranges_and_nothing_else(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    pieces = split(ranges, partitions_min, records_max)
    rest = iter(pieces)
    for one in ranges:
        position = one.first
        while position < one.end:
            piece = next(rest)
            assert (piece.partition, piece.first) == (one.partition, position)
            assert 0 < piece.size <= (records_max or 10**9)
            position = piece.end
        assert position == one.end
    assert list(rest) == []


def test_large_ranges_are_cut_more_often() -> None:
    pieces = split([OffsetRange(A0, 0, 900), OffsetRange(B0, 0, 100)], 10, None)
    assert [piece.size for piece in pieces] == [100] * 10


@unhurried
@given(positions, positions, st.integers(1, 10**5))
def test_a_limit_is_kept_and_every_partition_moves_on(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], records_max: int
) -> None:
    end = {partition: max(offset, start.get(partition, 0)) for partition, offset in end.items()}
    reached = limit(start, end, records_max)
    moved = {partition: reached[partition] - start.get(partition, 0) for partition in end}
    left = {partition: end[partition] - start.get(partition, 0) for partition in end}
    assert all(0 <= moved[partition] <= left[partition] for partition in end)
    assert all(moved[partition] > 0 for partition in end if left[partition])
    assert sum(moved.values()) <= records_max + len(end)
    if sum(left.values()) <= records_max:
        assert reached == end


@unhurried
@given(positions)
def test_offsets_go_through_a_checkpoint_unchanged(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(to_json(offsets)) == offsets
    assert to_json({A1: 2, A0: 1, B0: 3}) == {"a": {"0": 1, "1": 2}, "b": {"0": 3}}
