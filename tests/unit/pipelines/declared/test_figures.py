"""Rates, batch times and lag from Spark's progress documents."""

from typing import Any

from hutong.pipelines.declared.figures import figures, lag_of, line_of, offsets_of


def document(batch: int, rows: int, milliseconds: int, reached: Any = None, latest: Any = None) -> dict[str, Any]:
    return {
        "id": "1",
        "name": "out",
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": milliseconds},
        "sources": [{"endOffset": reached, "latestOffset": latest}],
    }


def test_the_rate_is_of_the_last_batches_and_the_lag_of_the_last() -> None:
    told = [
        document(1, 100, 1000, {"t": {"0": 50, "1": 50}}, {"t": {"0": 60, "1": 50}, "u": {"0": 3}}),
        document(2, 300, 1000, {"t": {"0": 55}}, {"t": {"0": 60, "1": 50}}),
    ]
    (one,) = figures(told)
    assert (one.query, one.batch, one.rows_per_second, one.batch_ms) == ("out", 2, 200.0, 1000)
    assert one.lag == {"t": 55}
    assert lag_of(told[0]) == {"t": 10, "u": 3}
    assert line_of([one]) == "out: batch 2, 200 rows/s, lag 55, 1,000 ms"


def test_idle_triggers_do_not_spoil_the_rate() -> None:
    (one,) = figures([document(1, 100, 1000), document(2, 0, 3)])
    assert (one.batch, one.rows_per_second, one.batch_ms) == (2, 100.0, 1000)


def test_queries_are_told_apart() -> None:
    other = document(7, 5, 10) | {"name": "copy"}
    assert [one.query for one in figures([document(1, 1, 1), other, document(2, 1, 1)])] == ["out", "copy"]
    assert figures([]) == []


def test_offsets_may_come_as_text_or_not_be_those_of_topics() -> None:
    assert lag_of(document(1, 1, 1, '{"t": {"0": 1}}', '{"t": {"0": 4}}')) == {"t": 3}
    for other in (None, 7, "nonsense", {"logOffset": 3}, [1], '"x"'):
        assert lag_of(document(1, 1, 1, other, other)) == {}
    assert offsets_of(document(1, 1, 1, {"t": {"0": 9}})) == {"t": {"0": 9}}
    assert lag_of({}) == {}
    assert figures([{}])[0].batch == 0
