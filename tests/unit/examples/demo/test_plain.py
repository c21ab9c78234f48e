"""The second computation, against answers worked out by hand."""

import pytest

from hutong.examples.demo.plain import differing, page_rank, requests_per_hour, windows


def test_page_rank_by_hand() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"), ("a", "b")]
    ranks = page_rank(edges, 2)
    # Round 1: a = .15+.85*1, b = .15+.85*.5, c = .15+.85*(.5+1). Round 2 with those.
    assert ranks["a"] == pytest.approx(0.15 + 0.85 * (0.15 + 0.85 * 1.5))
    assert ranks["b"] == pytest.approx(0.15 + 0.85 * 0.5)
    assert ranks["c"] == pytest.approx(0.15 + 0.85 * (0.5 + (0.15 + 0.85 * 0.5)))


def test_a_page_that_receives_nothing_drops_out_and_so_does_what_only_it_fed() -> None:
    chain = [("a", "b"), ("b", "c"), ("c", "d"), ("x", "x")]
    assert set(page_rank(chain, 1)) == {"b", "c", "d", "x"}
    assert set(page_rank(chain, 2)) == {"c", "d", "x"}
    assert set(page_rank(chain, 3)) == {"d", "x"}
    assert page_rank(chain, 4) == {"x": pytest.approx(1.0)}


def test_differing_names_what_is_missing_or_off() -> None:
    mine = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert differing(mine, dict(mine)) == []
    assert differing(mine, {"a": 1.0 + 1e-12, "b": 2.0 + 1e-6, "d": 3.0}) == ["b", "c", "d"]


def test_windows() -> None:
    samples = [(10_000, "cpu", 1.0), (14_999, "cpu", 3.0), (15_000, "cpu", 7.0), (14_000, "load", 5.0)]
    assert windows(samples, 5000) == {
        (10_000, "cpu"): (2, 2.0),
        (15_000, "cpu"): (1, 7.0),
        (10_000, "load"): (1, 5.0),
    }


def test_requests_per_hour() -> None:
    line = b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 %s "-" "agent \\"x\\""'
    lines = [
        line % b"10",
        line % b"-",
        line.replace(b"10:05:03 +0000", b"13:05:03 +0200") % b"5",
        line[:-1] % b"7",
        line.replace(b"May", b"Mai") % b"7",
        b"\xff",
    ]
    assert requests_per_hour(lines) == ({"2015-05-17T10:00:00Z": (2, 10), "2015-05-17T11:00:00Z": (1, 5)}, 3)
