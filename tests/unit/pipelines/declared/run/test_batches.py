"""The batches that have read given records: by ranges of offsets, and from documents that nobody should write."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.pipelines.declared.run.batches import BATCHES_MAX, NUMBER_MAX, ReadingBatches
from hutong.pipelines.engine.micro_batches import ranges_of


def document(batch: int, begin: Any, end: Any, query: str = "out") -> dict[str, Any]:
    return {
        "id": "9e8e",
        "name": query,
        "timestamp": "2026-11-22T08:49:18.000Z",
        "batchId": batch,
        "numInputRows": 3,
        "durationMs": {"triggerExecution": 797},
        "sources": [{"startOffset": begin, "endOffset": end}],
    }


def readers(*documents: dict[str, Any], places: list[tuple[str, int, int]]) -> list[tuple[int, list[tuple[Any, bool]]]]:
    found = ReadingBatches(places)
    for each in documents:
        found.add(each)
    return [(batch.batch_id, [(one.place, one.is_certain) for one in batch.read]) for batch in found.found]


def test_a_batch_has_read_from_its_start_up_to_its_end() -> None:
    before = document(1, {"t": {"0": 5}}, {"t": {"0": 10}})
    after = document(2, {"t": {"0": 10}}, {"t": {"0": 12}})
    idle = document(2, {"t": {"0": 12}}, {"t": {"0": 12}})
    for offset, batches in ((4, []), (5, [1]), (9, [1]), (10, [2]), (12, [])):
        found = readers(before, after, idle, places=[("t", 0, offset)])
        assert found == [(batch, [(("t", 0, offset), True)]) for batch in batches]
    assert readers(before, places=[("t", 1, 7), ("u", 0, 7)]) == []
    several = [("t", 0, 9), ("t", 0, 5), ("t", 0, 5), ("t", 0, 11)]
    assert readers(before, places=several) == [(1, [(("t", 0, 5), True), (("t", 0, 9), True)])]


def test_the_first_batch_of_a_query_may_have_begun_later() -> None:
    assert readers(document(0, None, {"t": {"0": 10}}), places=[("t", 0, 3)]) == [(0, [(("t", 0, 3), False)])]
    assert readers(document(0, {"t": {"0": -1}}, {"t": {"0": 9}}), places=[("t", 0, 3)]) == [
        (0, [(("t", 0, 3), False)])
    ]


def test_a_first_batch_with_as_many_rows_as_offsets_has_read_them_all() -> None:
    told = document(0, None, {"t": {"0": 10, "1": 2}})
    told["sources"][0]["numInputRows"] = 12
    assert readers(told, places=[("t", 0, 3)]) == [(0, [(("t", 0, 3), True)])]
    told["sources"][0]["numInputRows"] = 11
    assert readers(told, places=[("t", 0, 3)]) == [(0, [(("t", 0, 3), False)])]


def test_a_partition_that_is_new_is_read_from_its_beginning() -> None:
    grown = document(3, {"t": {"0": 4}}, {"t": {"0": 4, "1": 2}})
    assert readers(grown, places=[("t", 1, 0), ("t", 0, 3)]) == [(3, [(("t", 1, 0), True)])]


def test_offsets_as_text_are_the_same() -> None:
    told = document(1, '{"t": {"0": 5}}', '{"t": {"0": 10}}')
    assert ranges_of(told) == {("t", 0): (5, 10)}


def test_a_batch_as_it_is_shown() -> None:
    found = ReadingBatches([("t", 0, 5)])
    found.add(document(7, {"t": {"0": 5}}, {"t": {"0": 6}}, "x" * 500 + "\ud800"))
    (batch,) = found.found
    assert (batch.started_ms, batch.duration_ms, batch.row_count) == (1795337358000, 797, 3)
    assert batch.query == "x" * 200
    found.add(document(8, {"t": {"0": 5}}, {"t": {"0": 6}}, "\ud800"))
    assert found.found[1].query == "?"


def test_more_batches_than_there_is_room_for() -> None:
    found = ReadingBatches([("t", 0, 5)])
    for number in range(BATCHES_MAX + 1):
        found.add(document(number, {"t": {"0": 5}}, {"t": {"0": 6}}))
    assert (len(found.found), found.is_cut) == (BATCHES_MAX, True)


def test_lines_without_the_topics_are_passed_over() -> None:
    found = ReadingBatches([("orders", 0, 5)])
    assert found.may_tell(b'{"endOffset": {"orders": {"0": 5}}}')
    assert not found.may_tell(b'{"endOffset": {"payments": {"0": 5}}}')


@pytest.mark.parametrize("changes", [{"batchId": NUMBER_MAX}, {"batchId": -1}, {"numInputRows": 10**40}, {"id": None}])
def test_numbers_that_no_browser_has_are_left_out(changes: dict[str, Any]) -> None:
    told = document(1, {"t": {"0": 5}}, {"t": {"0": 10}}) | changes
    expected = 1 if changes == {"id": None} else 0
    assert len(readers(told, places=[("t", 0, 5)])) == expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "0", "1"]), inner, max_size=3),
    max_leaves=10,
)


@given(anything, anything, anything)
def test_no_document_breaks_it(begin: Any, end: Any, sources: Any) -> None:
    found = ReadingBatches([("t", 0, 5)])
    found.add(document(1, begin, end))
    found.add(document(1, json.dumps(begin), json.dumps(end)))
    found.add(document(1, begin, end) | {"sources": sources})
    found.add({"sources": sources})
