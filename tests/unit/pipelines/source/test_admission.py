import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.clock import ManualClock
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.source.admission import Admission, TriggerLimits, duration_ms, limit

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.sampled_from([A0, A1, B0])
positions = st.dictionaries(partitions, st.integers(0, 10**6), min_size=1)


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


def test_a_partition_that_went_back_stays_where_it_is_now() -> None:
    assert limit({A0: 50, A1: 0}, {A0: 20, A1: 100}, 10) == {A0: 20, A1: 10}


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    clock = ManualClock()
    admission = Admission(TriggerLimits(records_min=10, delay_ms_max=1_000), clock)
    assert admission.reach({A0: 0}, {A0: 1}) == {A0: 1}  # nothing came before, so there is nothing to wait since
    assert admission.reach({A0: 1}, {A0: 5, B0: 5}) == {A0: 1}
    assert admission.reach({A0: 1}, {A0: 6, B0: 5}) == {A0: 6, B0: 5}
    clock.advance(999)
    assert admission.reach({A0: 6, B0: 5}, {A0: 7, B0: 5}) == {A0: 6, B0: 5}
    clock.advance(1)
    assert admission.reach({A0: 6, B0: 5}, {A0: 7, B0: 5}) == {A0: 7, B0: 5}


def test_limits_do_not_hold_where_spark_sets_them_aside_or_no_more_will_come() -> None:
    admission = Admission(TriggerLimits(records_max=2, records_min=2), ManualClock())
    assert admission.reach({A0: 0}, {A0: 9}) == {A0: 2}
    assert admission.reach({A0: 2}, {A0: 3}) == {A0: 2}
    assert admission.reach({A0: 2}, {A0: 3}, wait=False) == {A0: 3}
    assert admission.reach({A0: 2}, {A0: 9}, everything=True) == {A0: 9}


@pytest.mark.parametrize(("text", "milliseconds"), [("15m", 900_000), ("500", 500), ("2 s", 2_000), ("1H", 3_600_000)])
def test_times_are_written_as_spark_has_them(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5s", "1 fortnight"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        duration_ms(text)
