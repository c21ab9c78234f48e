from tests.unit.console.nodes.figures_of import histogram, history, sample

from hutong.console.nodes.own_figures import identity, own_figures


def stage(name: str, counts: dict[str, int], group: str = "days") -> list[str]:
    return histogram("hutong_produce_stage_seconds", counts, f'group="{group}",stage="{name}"')


BEFORE = [
    *histogram("hutong_chunk_bytes", {"128": 1, "+Inf": 0}, 'group="days"'),
    *histogram("hutong_chunk_bytes", {"128": 1, "+Inf": 0}, 'group="offsets"'),
    'hutong_flushed_bytes_total{group="days"} 100',
    'hutong_flushed_bytes_total{group="offsets"} 0',
]
AFTER = [
    *histogram("hutong_chunk_bytes", {"128": 1, "256": 0, "512": 4, "1024": 2, "+Inf": 1}, 'group="days"'),
    *histogram("hutong_chunk_bytes", {"128": 1, "+Inf": 0}, 'group="offsets"'),
    *stage("fsync", {"0.001": 9, "0.004": 1, "+Inf": 0}),
    *stage("safe", {"0.001": 0, "0.004": 10, "+Inf": 0}),
    'hutong_flushed_bytes_total{group="days"} 700',
    'hutong_flushed_bytes_total{group="offsets"} 0',
    'hutong_unreleased_bytes{group="days"} 12',
    'hutong_group_congested{group="days"} 1',
    'hutong_listener_connections{listener="PLAINTEXT"} 3',
    'hutong_web_connections{server="console"} 1',
    'hutong_waits{lot="fetches"} 2',
    'hutong_waits{lot="throttled"} 0',
    'kafka_network_requestmetrics_requests_total{request="Produce"} 20',
    'kafka_network_requestmetrics_requests_total{request="Fetch"} 40',
    'kafka_network_requestmetrics_errors_total{request="Fetch",error="NONE"} 38',
    'kafka_network_requestmetrics_errors_total{request="Fetch",error="OFFSET_OUT_OF_RANGE"} 2',
    *histogram("hutong_request_seconds", {"0.001": 20, "+Inf": 0}, 'request="Produce"'),
    'hutong_node_info{version="1.2",python="3.11",node_id="7"} 1',
    "process_resident_memory_bytes 1000",
]


def test_the_busiest_partition_group_comes_first_with_its_stages() -> None:
    shown = own_figures(history(sample(0, *BEFORE), sample(2, *AFTER)))
    days, offsets = shown["groups"]
    assert (days["name"], offsets["name"]) == ("days", "offsets")
    assert days["flushed_bytes_per_s"] == 300
    assert days["chunks_per_s"] == 5
    assert (days["unreleased_bytes"], days["is_congested"]) == (12, True)
    assert [one["name"] for one in days["stages"]] == ["turn", "queue", "write", "fsync", "release", "safe"]
    fsync = days["stages"][3]
    assert 0 < fsync["p50_s"] < 0.001 < fsync["p99_s"] < 0.004
    assert days["fsync"] == [(0.001, 9), (0.004, 1)]
    assert offsets["stages"][0] == {"name": "turn", "p50_s": None, "p99_s": None}


def test_bars_have_no_empty_ends_and_may_have_no_bound() -> None:
    empty = [*histogram("hutong_chunk_bytes", {"128": 0, "256": 0, "512": 0, "1024": 0, "+Inf": 0}, 'group="days"')]
    (days, _) = own_figures(history(sample(0, *empty), sample(2, *AFTER)))["groups"]
    assert days["chunk_bytes"] == [(128, 1), (256, 0), (512, 4), (1024, 2), (None, 1)]


def test_requests_have_rates_times_and_failures() -> None:
    fetch, produce = own_figures(history(sample(0), sample(2, *AFTER)))["requests"]
    assert (fetch["name"], fetch["per_s"], fetch["failed_per_s"], fetch["p50_s"]) == ("Fetch", 20, 1, None)
    assert (produce["name"], produce["per_s"], produce["failed_per_s"]) == ("Produce", 10, 0)
    assert 0 < produce["p50_s"] < produce["p99_s"] < 0.001


def test_what_is_now_needs_one_sample() -> None:
    shown = own_figures(history(sample(2, *AFTER)))
    assert shown["groups"] == shown["requests"] == []
    assert shown["connections"] == [{"name": "kafka PLAINTEXT", "open": 3}, {"name": "console", "open": 1}]
    assert shown["waits"] == [("fetches", 2)]
    assert shown["memory"]["resident_bytes"] == 1_000
    assert shown["memory"]["hot_bytes"] is None
    assert identity(sample(0, *AFTER)) == {"version": "1.2", "python": "3.11", "node_id": "7"}
    assert identity(sample(0)) == {}
