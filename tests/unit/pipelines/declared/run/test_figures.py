"""Rates, batch times and lag from Spark's progress documents."""

from typing import Any

from hutong.pipelines.declared.run.figures import figures, line_of, offsets_of


def document(
    batch: int, rows: int, milliseconds: int, reached: Any = None, latest: Any = None, query: str = "out"
) -> dict[str, Any]:
    return {
        "id": f"id of {query}",
        "name": query,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": milliseconds},
        "sources": [{"endOffset": reached, "latestOffset": latest}],
    }


def test_the_rate_is_of_the_last_batches_and_the_lag_of_the_last() -> None:
    told = [
        document(1, 100, 1000, {"t": {"0": 50}}, {"t": {"0": 60}}),
        document(2, 300, 1000, {"t": {"0": 55, "1": 0}}, {"t": {"0": 60, "1": 50}}),
    ]
    (one,) = figures(told)
    assert (one.query, one.batch, one.rows_per_second, one.batch_ms) == ("out", 2, 200.0, 1000)
    assert one.lag == {"t": 55}
    assert line_of([one]) == "out: batch 2, 200 rows/s, lag 55, 1,000 ms"


def test_idle_triggers_do_not_spoil_the_rate() -> None:
    (one,) = figures([document(1, 100, 1000), document(2, 0, 3)])
    assert (one.batch, one.rows_per_second, one.batch_ms) == (2, 100.0, 1000)


def test_queries_are_told_apart() -> None:
    told = figures([document(1, 1, 1), document(7, 5, 10, query="copy"), document(2, 1, 1)])
    assert [(one.query, one.batch) for one in told] == [("out", 2), ("copy", 7)]


def test_what_is_no_progress_is_left_out() -> None:
    assert figures([]) == figures([{}, {"id": 1}]) == []


def test_where_topics_are_read_to() -> None:
    assert offsets_of(document(1, 1, 1, {"t": {"0": 9}})) == {"t": {"0": 9}}
    for other in (None, 7, "nonsense", {"logOffset": 3}, [1]):
        assert offsets_of(document(1, 1, 1, other)) == {}
    assert offsets_of({}) == {}
