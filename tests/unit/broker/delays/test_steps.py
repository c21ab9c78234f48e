"""Steps of waiting, and the packing of a delayed record."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.delays.steps import HEADER, QUEUES, STEPS_S, DelayedRecord, DeliveryPlace, packed, step_for, unpacked
from hutong.wire.kafka.batch.records import Record

THREE_DAYS_MS = 3 * 24 * 3_600_000


def test_the_steps_rise_to_three_days() -> None:
    assert sorted(set(STEPS_S)) == list(STEPS_S)
    assert STEPS_S[:3] == (0, 1, 2)
    assert STEPS_S[63:66] == (63, 64, 128)
    assert STEPS_S[-1] == 63 * 64 * 64
    assert len(STEPS_S) == 190
    assert QUEUES == 191


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_the_step_is_the_longest_that_is_not_longer(wait_ms: int) -> None:
    step = step_for(wait_ms)
    assert STEPS_S[step] * 1_000 <= max(0, wait_ms)
    assert step + 1 == len(STEPS_S) or STEPS_S[step + 1] * 1_000 > wait_ms


@given(st.integers(min_value=0, max_value=THREE_DAYS_MS))
def test_three_steps_leave_less_than_a_second(wait_ms: int) -> None:
    for _ in range(3):
        wait_ms -= STEPS_S[step_for(wait_ms)] * 1_000
    assert 0 <= wait_ms < 1_000


@given(
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.integers(min_value=0, max_value=2**31 - 1),
    st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
    st.lists(st.tuples(st.text(), st.none() | st.binary())),
)
def test_a_record_comes_out_as_it_went_in(
    due_ms: int, partition: int, topic: str, headers: list[tuple[str, bytes | None]]
) -> None:
    delayed = DelayedRecord(due_ms, DeliveryPlace(topic, partition), Record(0, 7, b"k", None, headers))
    waiting = packed(delayed, 42)
    assert waiting.timestamp_ms == 42
    found = unpacked(waiting)
    assert found is not None
    assert (found.due_ms, found.place) == (due_ms, DeliveryPlace(topic, partition))
    assert (found.record.key, found.record.value, list(found.record.headers)) == (b"k", None, headers)


@given(st.binary(max_size=300))
def test_what_the_node_has_not_written_is_known(where: bytes) -> None:
    found = unpacked(Record(headers=[(HEADER, where)]))
    assert found is None or packed(found, 0).headers[0] == (HEADER, where)


def test_a_record_without_its_place_is_known() -> None:
    assert unpacked(Record()) is None
    assert unpacked(Record(headers=[("other", b"x"), (HEADER, b"x" * 20)])) is None
    assert unpacked(Record(headers=[(HEADER, None)])) is None
    good = packed(DelayedRecord(5, DeliveryPlace("t", 0), Record()), 0).headers[0][1]
    assert good is not None
    assert unpacked(Record(headers=[(HEADER, good)])) is not None
    assert unpacked(Record(headers=[(HEADER, b"\x02" + good[1:])])) is None, "another version"
    assert unpacked(Record(headers=[(HEADER, good[:-1])])) is None, "no topic"
    assert unpacked(Record(headers=[(HEADER, good + b"\xff")])) is None, "no text"
    assert unpacked(Record(headers=[(HEADER, good + b"t" * 249)])) is None, "too long"
