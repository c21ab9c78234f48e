"""Progress of streaming queries, as listeners and event logs tell it, and as nobody should."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.pipelines.engine.micro_batches import lag_of_topic, micro_batch

PROGRESS: dict[str, Any] = {
    "id": "9e8e9e33-efdd-40c0-a2f4-40e9ff27386a",
    "runId": "46db9083",
    "name": "hours",
    "timestamp": "2026-11-22T08:49:18.000Z",
    "batchId": 8,
    "batchDuration": 798,
    "numInputRows": 19999,
    "inputRowsPerSecond": 10004.5,
    "processedRowsPerSecond": 25061.4,
    "durationMs": {
        "addBatch": 621,
        "commitOffsets": 61,
        "getBatch": 1,
        "latestOffset": 2,
        "queryPlanning": 56,
        "triggerExecution": 797,
        "walCommit": 54,
    },
    "eventTime": {"max": "2026-11-22T08:49:06.445Z", "watermark": "1970-01-01T00:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 2088, "numRowsDroppedByWatermark": 3}],
    "sources": [
        {
            "endOffset": {"web": {"0": 77124, "1": 51393}, "other": {"0": 1}},
            "latestOffset": {"web": {"0": 122551, "1": 51393, "9": 5}, "other": {"0": 3}},
            "numInputRows": 19999,
        },
        {"endOffset": 7, "latestOffset": None},
    ],
    "sink": {"numOutputRows": -1},
}


def test_a_batch_as_a_listener_tells_it() -> None:
    batch = micro_batch(PROGRESS)
    assert (batch.query, batch.batch_id, batch.started_ms, batch.duration_ms) == ("hours", 8, 1795337358000, 797)
    assert batch.phases_ms == {
        "asking for offsets": 2,
        "planning": 57,
        "noting the plan": 54,
        "computing": 621,
        "noting the end": 61,
        "other": 2,
    }
    assert (batch.row_count, batch.watermark_ms) == (19999, None)
    assert (batch.state_row_count, batch.state_bytes, batch.late_row_count) == (4, 2088, 3)


def test_lag_counts_the_partitions_that_both_sides_know() -> None:
    assert lag_of_topic(PROGRESS) == {"web": 45427, "other": 2}
    assert micro_batch(PROGRESS).lag == 45429


def test_offsets_of_an_event_log_are_text() -> None:
    source = {name: json.dumps(offsets) for name, offsets in PROGRESS["sources"][0].items()}
    assert lag_of_topic({"sources": [source]}) == lag_of_topic(PROGRESS)


def test_an_event_log_counts_rows_by_source_alone() -> None:
    told = {name: value for name, value in PROGRESS.items() if name != "numInputRows"}
    assert micro_batch(told).row_count == 19999


def test_a_source_without_newest_offsets_has_no_lag() -> None:
    assert micro_batch(PROGRESS | {"sources": PROGRESS["sources"][1:]}).lag is None


@pytest.mark.parametrize("missing", ["id", "batchId", "timestamp"])
def test_what_is_no_progress_is_refused(missing: str) -> None:
    with pytest.raises(ValueError, match="not the progress"):
        micro_batch({name: value for name, value in PROGRESS.items() if name != missing})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just('{"a": {"0": 1}}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "0", "numRowsTotal"]), inner),
    max_leaves=6,
)


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(st.sampled_from(sorted(PROGRESS)), anything))
def test_damaged_progress_is_read_or_refused(damage: dict[str, Any]) -> None:
    try:
        batch = micro_batch(PROGRESS | damage)
    except ValueError:
        return
    assert batch.row_count >= 0


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(st.sampled_from(["latestOffset", "endOffset", "numInputRows"]), anything))
def test_damaged_sources_are_read(source: dict[str, Any]) -> None:
    batch = micro_batch({**PROGRESS, "sources": [PROGRESS["sources"][0] | source]})
    assert batch.lag is None or batch.lag >= 0
