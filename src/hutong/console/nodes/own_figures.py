"""The figures of the node itself for its page: stages of a produce, disk, memory, connections, requests.

Knows no route.
"""

from collections.abc import Iterable
from typing import Any, Final

from hutong.console.nodes.history import History, SampledTime, quantile_of
from hutong.console.nodes.samples import Labels, Sample

SECONDS_MS: Final = 10_000
"""The time whose quantiles and rates are shown."""
STAGES: Final = ("turn", "queue", "write", "fsync", "replicate", "release", "safe")
_INFO: Final = "hutong_node_info"


def own_figures(history: History) -> dict[str, Any]:
    """All that the page shows live."""
    sample, lately = history.newest, history.over(SECONDS_MS)
    assert sample is not None, "the history has a sample once somebody has looked"
    return {
        "at_ms": sample.wall_ms,
        "over_ms": lately.length_ms if lately is not None else None,
        "groups": _groups(sample, lately),
        "memory": _memory(sample),
        "connections": _connections(sample),
        "requests": _requests(lately),
        "loop": _loop(lately),
        "waits": _by(sample, "hutong_waits"),
    }


def identity(sample: Sample) -> dict[str, str]:
    """Version, number and the like of the node."""
    (labels, *_) = (*sample.series(_INFO), ())
    return dict(labels)


def _groups(sample: Sample, lately: SampledTime | None) -> list[dict[str, Any]]:
    """Each partition group that has been written to, those with most flushed bytes first."""
    if lately is None:
        return []
    stages = lately.histograms("hutong_produce_stage_seconds")
    chunks = lately.histograms("hutong_chunk_bytes")
    flushed, flushes = (lately.rates(f"hutong_{name}_total") for name in ("flushed_bytes", "flushes"))
    found = []
    for key in sample.series("hutong_chunk_bytes_count"):
        (group,) = (value for name, value in key if name == "group")
        own = {stage: stages.get((("group", group), ("stage", stage)), {}) for stage in STAGES}
        found.append(
            {
                "name": group,
                "flushed_bytes_per_s": flushed.get(key, 0.0),
                "flushes_per_s": flushes.get(key, 0.0),
                "chunks_per_s": _count(own["safe"]) * 1_000 / lately.length_ms,
                "unreleased_bytes": sample.series("hutong_unreleased_bytes").get(key, 0.0),
                "is_congested": bool(sample.series("hutong_group_congested").get(key, 0.0)),
                "stages": [_stage(stage, counts) for stage, counts in own.items() if counts or stage != "replicate"],
                "fsync": _bars(own["fsync"]),
                "chunk_bytes": _bars(chunks.get(key, {})),
            }
        )
    return sorted(found, key=lambda group: -group["flushed_bytes_per_s"])


def _stage(name: str, counts: dict[float, float]) -> dict[str, Any]:
    return {"name": name, "p50_s": quantile_of(counts, 0.5), "p99_s": quantile_of(counts, 0.99)}


def _bars(counts: dict[float, float]) -> list[tuple[float | None, float]]:
    """The values of each bucket alone, by its upper bound (None: none), without empty ones at the ends."""
    bars: list[tuple[float | None, float]] = []
    below = 0.0
    for bound, count in counts.items():
        bars.append((bound if bound != float("inf") else None, count - below))
        below = count
    filled = [place for place, (_, count) in enumerate(bars) if count]
    return bars[filled[0] : filled[-1] + 1] if filled else []


def _count(counts: dict[float, float]) -> float:
    return max(counts.values(), default=0.0)


def _memory(sample: Sample) -> dict[str, Any]:
    return {
        "resident_bytes": sample.value("process_resident_memory_bytes"),
        "hot_bytes": sample.value("hutong_region_hot_bytes"),
        "escaped_bytes": sample.value("hutong_region_escaped_bytes"),
        "unreleased_bytes": sample.value("hutong_unreleased_bytes"),
        "connections_bytes": sample.value("hutong_connection_memory_bytes"),
        "connections_bytes_max": sample.value("hutong_connection_memory_limit_bytes"),
    }


def _connections(sample: Sample) -> list[dict[str, Any]]:
    kafka = [{"name": f"kafka {name}", "open": count} for name, count in _by(sample, "hutong_listener_connections")]
    return [*kafka, *({"name": name, "open": count} for name, count in _by(sample, "hutong_web_connections"))]


def _requests(lately: SampledTime | None) -> list[dict[str, Any]]:
    """Each kind of request of the last seconds, the most frequent first."""
    if lately is None:
        return []
    times = lately.histograms("hutong_request_seconds")
    errors = _failed(lately)
    found = [
        {
            "name": labels[0][1],
            "per_s": rate,
            "p50_s": quantile_of(times.get(labels, {}), 0.5),
            "p99_s": quantile_of(times.get(labels, {}), 0.99),
            "failed_per_s": errors.get(labels[0][1], 0.0),
        }
        for labels, rate in lately.rates("kafka_network_requestmetrics_requests_total").items()
        if labels and rate
    ]
    return sorted(found, key=lambda one: -one["per_s"])


def _failed(lately: SampledTime) -> dict[str, float]:
    failed: dict[str, float] = {}
    for labels, rate in lately.rates("kafka_network_requestmetrics_errors_total").items():
        named = dict(labels)
        if named.get("error") != "NONE":
            request = named.get("request", "")
            failed[request] = failed.get(request, 0.0) + rate
    return failed


def _loop(lately: SampledTime | None) -> dict[str, float | None]:
    if lately is None:
        return {"late_p99_s": None, "work_p99_s": None, "processors_used": None}
    return {
        "late_p99_s": lately.quantile("hutong_loop_lateness_seconds", 0.99),
        "work_p99_s": lately.quantile("hutong_loop_work_seconds", 0.99),
        "processors_used": lately.rate("process_cpu_seconds_total"),
    }


def _by(sample: Sample, name: str) -> list[tuple[str, float]]:
    """A gauge by the value of its one label, without zeros."""
    return sorted(_named(sample.series(name).items()))


def _named(items: Iterable[tuple[Labels, float]]) -> Iterable[tuple[str, float]]:
    return ((labels[0][1], value) for labels, value in items if labels and value)
