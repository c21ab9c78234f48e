"""The figures of a node that the overview shows, from its samples.

Knows no rule.
"""

from collections import deque
from typing import Any, Final

from hutong.console.nodes.history import History, SampledTime, quantile_of, together
from hutong.console.nodes.samples import Labels, Sample

LIVE_MS: Final = 4_000
"""Rates are those of so long."""
SECONDS_MS: Final = 10_000
LISTED_MAX: Final = 8
POINTS_MAX: Final = 300
RECORDS_IN: Final = "kafka_server_brokertopicmetrics_messagesin_total"
BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
_SAFE: Final = ("stage", "safe")


class Points:
    """Throughput over the last minutes in which somebody looked: time, records in, bytes in, bytes out a second."""

    def __init__(self) -> None:
        self.points: deque[tuple[int, float | None, float | None, float | None]] = deque(maxlen=POINTS_MAX)

    def observe(self, history: History) -> None:
        sample, difference = history.newest, history.over(1)
        if sample is None:
            return
        if difference is None:  # the first, or the first after a gap, which breaks the lines
            if self.points:
                self.points.append((sample.wall_ms, None, None, None))
            return
        rates = [difference.rates(name).get((), 0.0) for name in (RECORDS_IN, BYTES_IN, BYTES_OUT)]
        self.points.append((sample.wall_ms, rates[0], rates[1], rates[2]))


def figures(history: History) -> dict[str, Any]:
    """Figures of the whole node; those that are not known yet are None."""
    sample, live = history.newest, history.over(LIVE_MS)
    assert sample is not None, "the history has a sample once somebody has looked"
    value = sample.value
    return {
        "records_in_per_s": _rate(live, RECORDS_IN),
        "bytes_in_per_s": _rate(live, BYTES_IN),
        "bytes_out_per_s": _rate(live, BYTES_OUT),
        "requests_per_s": live.rate("kafka_network_requestmetrics_requests_total") if live else None,
        "safe_p99_s": _safe_p99(history),
        "connections": value("hutong_connections_open"),
        "processors_used": live.rate("process_cpu_seconds_total") if live else None,
        "memory_bytes": value("process_resident_memory_bytes"),
        "topics": value("kafka_controller_kafkacontroller_globaltopiccount"),
        "partitions": value("kafka_controller_kafkacontroller_globalpartitioncount"),
        "groups": len(sample.series("kafka_consumergroup_members")),
        "volume_free_bytes": value("hutong_volume_free_bytes"),
        "volume_size_bytes": value("hutong_volume_size_bytes"),
        "up_ms": _up_ms(sample),
    }


def busiest_topics(history: History) -> list[dict[str, Any]]:
    """The topics with most bytes in, those of the node itself apart."""
    live = history.over(SECONDS_MS)
    if live is None:
        return []
    records, bytes_in, bytes_out = (live.rates(name) for name in (RECORDS_IN, BYTES_IN, BYTES_OUT))
    busy = [labels for labels in bytes_in if labels and not labels[0][1].startswith("__")]
    busy = [labels for labels in busy if bytes_in[labels] or bytes_out.get(labels)]
    busy.sort(key=lambda labels: -bytes_in[labels])
    return [
        {
            "name": labels[0][1],
            "records_in_per_s": records.get(labels, 0.0),
            "bytes_in_per_s": bytes_in[labels],
            "bytes_out_per_s": bytes_out.get(labels, 0.0),
        }
        for labels in busy[:LISTED_MAX]
    ]


def latest_groups(history: History) -> list[dict[str, Any]]:
    """The consumer groups with most lag: how much, how old, and how fast they read."""
    sample, live = history.newest, history.over(SECONDS_MS)
    assert sample is not None, "the history has a sample once somebody has looked"
    lags = _by_group(dict(sample.series("kafka_consumergroup_lag")))
    read = _by_group(live.rates("kafka_consumergroup_current_offset")) if live else {}
    ages: dict[str, float] = {}
    for labels, age_s in sample.series("kafka_consumergroup_lag_seconds").items():
        group = dict(labels)["consumergroup"]
        ages[group] = max(ages.get(group, 0.0), age_s)
    members = _by_group(dict(sample.series("kafka_consumergroup_members")))
    most = sorted(lags, key=lambda group: -lags[group])[:LISTED_MAX]
    return [
        {
            "name": group,
            "lag": lags[group],
            "lag_ms": ages[group] * 1_000 if group in ages else None,
            "read_per_s": read.get(group),
            "members": members.get(group),
        }
        for group in most
    ]


def _rate(live: SampledTime | None, name: str) -> float | None:
    """Of the figure without labels: the sum of all topics."""
    return None if live is None else live.rates(name).get(())


def _safe_p99(history: History) -> float | None:
    """The time after which a record with acks=all is safe, for 99 of 100 chunks of the last seconds."""
    difference = history.over(SECONDS_MS)
    if difference is None:
        return None
    stages = difference.histograms("hutong_produce_stage_seconds")
    return quantile_of(together(counts for labels, counts in stages.items() if _SAFE in labels), 0.99)


def _up_ms(sample: Sample) -> float | None:
    started_s = sample.value("process_start_time_seconds")
    return None if started_s is None else sample.wall_ms - started_s * 1_000


def _by_group(values: dict[Labels, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in values.items():
        group = dict(labels)["consumergroup"]
        found[group] = found.get(group, 0.0) + value
    return found
