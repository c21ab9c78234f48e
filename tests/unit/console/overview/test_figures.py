from tests.unit.console.nodes.figures_of import WALL_MS, histogram, history, sample

from hutong.console.nodes.history import GAP_MS_MAX, History
from hutong.console.overview.figures import LISTED_MAX, POINTS_MAX, Points, busiest_topics, figures, latest_groups


def traffic(topic: str, records: int, bytes_in: int, bytes_out: int = 0) -> list[str]:
    labels = f'{{topic="{topic}"}}' if topic else ""
    counts = {"messagesin": records, "bytesin": bytes_in, "bytesout": bytes_out}
    return [f"kafka_server_brokertopicmetrics_{name}_total{labels} {count}" for name, count in counts.items()]


def consumer(group: str, topic: str, offset: int, lag: int, age_s: float) -> list[str]:
    labels = f'{{consumergroup="{group}",topic="{topic}",partition="0"}}'
    values = {"current_offset": offset, "lag": lag, "lag_seconds": age_s}
    return [f"kafka_consumergroup_{name}{labels} {value}" for name, value in values.items()]


def test_figures_of_the_whole_are_those_of_all_topics_once() -> None:
    before = [*traffic("", 0, 0), *traffic("a", 0, 0), "process_cpu_seconds_total 1"]
    after = [
        *traffic("", 10, 400, 800),
        *traffic("a", 10, 400, 800),
        "process_cpu_seconds_total 2",
        f"process_start_time_seconds {WALL_MS / 1_000 - 5}",
        "hutong_volume_free_bytes 30",
        'kafka_consumergroup_members{consumergroup="g"} 1',
        *histogram("hutong_produce_stage_seconds", {"0.001": 100, "+Inf": 0}, 'group="days",stage="safe"'),
        *histogram("hutong_produce_stage_seconds", {"0.001": 0, "9": 1_000, "+Inf": 0}, 'group="days",stage="turn"'),
    ]
    shown = figures(history(sample(0, *before), sample(2, *after)))
    assert (shown["records_in_per_s"], shown["bytes_in_per_s"], shown["bytes_out_per_s"]) == (5, 200, 400)
    assert shown["processors_used"] == 0.5
    assert shown["up_ms"] == 7_000
    assert shown["groups"] == 1
    assert shown["volume_free_bytes"] == 30
    assert 0 < shown["safe_p99_s"] <= 0.001


def test_one_sample_shows_what_is_known() -> None:
    shown = figures(history(sample(0, "hutong_connections_open 3")))
    assert shown["connections"] == 3
    assert shown["records_in_per_s"] is shown["safe_p99_s"] is shown["up_ms"] is None
    assert busiest_topics(history(sample(0))) == []


def test_the_busiest_topics_of_users_are_listed() -> None:
    names = [f"t{number}" for number in range(20)]
    before = [line for name in names for line in traffic(name, 0, 0)]
    after = [line for number, name in enumerate(names) for line in traffic(name, number, number * 100, 5)]
    internal = traffic("__consumer_offsets", 9_999, 9_999)
    shown = busiest_topics(history(sample(0, *before), sample(2, *after, *internal, *traffic("", 1, 1))))
    assert [one["name"] for one in shown] == [f"t{number}" for number in range(19, 19 - LISTED_MAX, -1)]
    assert shown[0] == {"name": "t19", "records_in_per_s": 9.5, "bytes_in_per_s": 950, "bytes_out_per_s": 2.5}


def test_groups_with_most_lag_over_all_topics_come_first() -> None:
    before = [*consumer("a", "t", 0, 9, 1), *consumer("b", "t", 0, 9, 1)]
    after = [*consumer("a", "t", 8, 5, 2.5), *consumer("b", "t", 4, 4, 1), *consumer("b", "u", 2, 4, 3)]
    first, second = latest_groups(history(sample(0, *before), sample(2, *after)))
    assert first == {"name": "b", "lag": 8, "lag_ms": 3_000, "read_per_s": 3, "members": None}
    assert (second["name"], second["lag"], second["read_per_s"]) == ("a", 5, 4)


def test_points_are_bounded_and_break_at_a_gap() -> None:
    points, made = Points(), History()
    for number in range(POINTS_MAX + 50):
        made.add(sample(number * 2, *traffic("", number * 10, number * 20, number * 40)))
        points.observe(made)
    assert len(points.points) == POINTS_MAX
    assert points.points[-1][1:] == (5, 10, 20)
    made.add(sample(number * 2 + GAP_MS_MAX / 1_000 + 1, *traffic("", 0, 0)))
    points.observe(made)
    assert points.points[-1][1:] == (None, None, None)
