"""A trail within its bounds: topics in turn, the newest offsets of each, and no more hops than are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.durable.records import StoredRecord
from hutong.console.limits import TRAIL_HOPS_MAX
from hutong.console.trail.clues import Clue, trace_of
from hutong.console.trail.machine import TrailMachine

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01".encode()


def record(
    offset: int = 0,
    key: bytes | None = b"k",
    headers: list[tuple[str, bytes | None]] | None = None,
    topic: str = "t",
    partition: int = 0,
) -> StoredRecord:
    return StoredRecord(topic, partition, offset, 1_000 + offset, key, b"v", headers or [], 10)


def test_a_key_is_whole() -> None:
    clue = Clue("key", "k")
    assert clue.reason(record()) == "same key"
    assert clue.reason(record(key=b"kk")) is None
    assert clue.reason(record(key=None)) is None


@pytest.mark.parametrize(
    ("headers", "is_found"),
    [
        ([("traceparent", PARENT)], True),
        ([("TraceParent", PARENT)], True),
        ([("b3", TRACE.encode() + b"-00f067aa0ba902b7-1")], True),
        ([("X-B3-TraceId", TRACE.encode())], True),
        ([("traceparent", b"00-" + TRACE.encode())], False),
        ([("traceparent", None)], False),
        ([("other", PARENT)], False),
        ([], False),
    ],
)
def test_traces_by_their_headers(headers: list[tuple[str, bytes | None]], is_found: bool) -> None:
    assert (Clue("trace", TRACE).reason(record(headers=headers)) is not None) is is_found


@pytest.mark.parametrize("text", ["", "xyz", TRACE[:-1], TRACE.upper(), f"{TRACE}\n"])
def test_an_id_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="32 digits"):
        Clue("trace", text)


def test_headers_are_compared_with_name_and_value() -> None:
    clue = Clue("header", "7", "order")
    assert clue.reason(record(headers=[("order", b"7")])) == "same header"
    assert clue.reason(record(headers=[("order", b"77"), ("other", b"7")])) is None


def test_a_place_finds_its_dead_letters() -> None:
    clue = Clue("place", name="orders", partition=2, offset=5)
    assert clue.reason(record(5, topic="orders", partition=2)) == "the record"
    assert clue.reason(record(6, topic="orders", partition=2)) is None
    headers: list[tuple[str, bytes | None]] = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (2).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", (5).to_bytes(8, "big")),
    ]
    assert clue.reason(record(headers=headers, topic="orders-dlt")) == "its dead letter"


def test_the_trace_of_a_record_is_told() -> None:
    assert trace_of(record(headers=[("a", b"b"), ("traceparent", PARENT)])) == TRACE
    assert trace_of(record(headers=[("traceparent", b"\xff")])) is None


def test_topics_come_in_turn_and_share_the_bound() -> None:
    machine = TrailMachine(Clue("key", "k"), ["a", "b"], offsets_max=20)
    assert machine.next_topic() == "a"
    assert machine.begin_topic({0: (0, 100), 1: (0, 3), 2: (7, 7)}) == {0: 95, 1: 0}
    assert machine.progress().is_cut
    assert len(machine.receive([record(95), record(99)])) == 2
    assert not machine.is_topic_done
    machine.reach_end(1)
    assert machine.is_topic_done
    assert machine.next_topic() == "b"
    assert machine.begin_topic({0: (0, 100)}) == {0: 88}
    machine.abandon_topic()
    assert machine.next_topic() is None
    progress = machine.progress()
    assert (progress.topics_done, progress.hops, progress.looked_at) == (2, 2, 2)


def test_what_came_after_the_beginning_is_left_out() -> None:
    machine = TrailMachine(Clue("key", "k"), ["a"])
    machine.next_topic()
    machine.begin_topic({0: (0, 5)})
    assert machine.receive([record(5)]) == []
    assert machine.is_topic_done


def test_hops_have_a_bound() -> None:
    machine = TrailMachine(Clue("key", "k"), ["a", "b"])
    machine.next_topic()
    machine.begin_topic({0: (0, 2 * TRAIL_HOPS_MAX)})
    found = machine.receive([record(offset) for offset in range(2 * TRAIL_HOPS_MAX)])
    assert len(found) == TRAIL_HOPS_MAX
    assert machine.next_topic() is None
    assert machine.progress().is_cut


@given(
    st.lists(st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 500), st.integers(0, 500))), max_size=6),
    st.integers(0, 1_000),
)
def test_never_more_offsets_than_the_bound(topics: list[dict[int, tuple[int, int]]], offsets_max: int) -> None:
    machine = TrailMachine(Clue("key", "k"), [str(number) for number in range(len(topics))], offsets_max)
    asked = 0
    for spans in topics:
        machine.next_topic()
        begins = machine.begin_topic(spans)
        for partition, begin in begins.items():
            assert spans[partition][0] <= begin < spans[partition][1]
            asked += spans[partition][1] - begin
            machine.reach_end(partition)
    assert asked <= offsets_max
    assert machine.next_topic() is None
