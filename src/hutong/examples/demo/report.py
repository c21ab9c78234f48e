"""Findings and timings of the demo: the tables at the end.

Strategy: a `Findings` value holds everything that is shown, so that the tables and `--json` agree; the functions here
only format it.

Knows nothing of the run.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hutong.cli.output import print_json, print_rows, utc
from hutong.examples.demo.flow import DemoStream
from hutong.pipelines.report.render.tables import percentile

MODULES_SHOWN = 15
PATHS_SHOWN = 5
HOURS_SHOWN = 12

Row = dict[str, Any]


@dataclass(slots=True)
class Findings:
    """Everything a run of the demo found out."""

    bootstrap: str = ""
    data_dir: Path = Path()
    output_dir: Path = Path()
    started_in_seconds: float = 0.0
    node_memory_bytes: int = 0
    node_cpu_seconds: float = 0.0
    spark_seconds: dict[str, float] = field(default_factory=dict)
    streams: list[DemoStream] = field(default_factory=list)
    ranks: list[tuple[str, float]] = field(default_factory=list)  # highest first
    windows: list[Row] = field(default_factory=list)
    hours: list[Row] = field(default_factory=list)
    paths: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


def module_rows(findings: Findings, edges: Sequence[tuple[str, str]]) -> list[Row]:
    importers = Counter(target for _, target in edges)
    return [
        {"place": place, "module": module, "rank": rank, "imported_by": importers[module]}
        for place, (module, rank) in enumerate(findings.ranks[:MODULES_SHOWN], 1)
    ]


def stream_rows(streams: Sequence[DemoStream]) -> list[Row]:
    """Counts, rates and latencies of each topic. Latencies are milliseconds, measured by the client."""
    return [
        {
            "topic": stream.topic,
            "produced": len(stream.values),
            "acknowledged": stream.acknowledged,
            "consumed": len(stream.received),
            "processed": stream.processed,
            "sent_per_s": _rate(len(stream.values), stream.produce_seconds),
            "read_per_s": _rate(len(stream.received), stream.consume_seconds),
            "ack_ms_p50": _milliseconds(stream.acknowledged_after_seconds, 0.5),
            "ack_ms_p99": _milliseconds(stream.acknowledged_after_seconds, 0.99),
            "end_to_end_ms_p50": _milliseconds(stream.received_after_seconds, 0.5),
            "end_to_end_ms_p99": _milliseconds(stream.received_after_seconds, 0.99),
        }
        for stream in streams
    ]


def print_findings(findings: Findings, edges: Sequence[tuple[str, str]], *, as_json: bool) -> None:
    modules, streams = module_rows(findings, edges), stream_rows(findings.streams)
    if as_json:
        print_json(_document(findings, modules, streams))
        return
    _table(modules, "Most imported modules of the standard library, by PageRank")
    _table(findings.windows, "This machine while the demo ran, per window")
    _table(findings.hours[:HOURS_SHOWN], "Access log, per hour")
    _table(findings.paths[:PATHS_SHOWN], "Most requested paths")
    _table([{key: row[key] for key in _COUNTS} for row in streams], "Records, counted at every station")
    _table([{key: row[key] for key in _SPEEDS} for row in streams], "Throughput and latency of this run")
    _table(_figures(findings), "The node and the jobs")


_COUNTS = ("topic", "produced", "acknowledged", "consumed", "processed")
_SPEEDS = (
    "topic",
    "sent_per_s",
    "read_per_s",
    "ack_ms_p50",
    "ack_ms_p99",
    "end_to_end_ms_p50",
    "end_to_end_ms_p99",
)


def _figures(findings: Findings) -> list[Row]:
    figures: list[tuple[str, str]] = [
        ("node ready after", f"{findings.started_in_seconds:.2f} s"),
        ("node memory", f"{findings.node_memory_bytes / 2**20:.0f} MiB"),
        ("node processor time", f"{findings.node_cpu_seconds:.2f} s"),
        *((f"Spark: {job}", f"{seconds:.1f} s") for job, seconds in findings.spark_seconds.items()),
        ("whole demo", f"{findings.seconds:.1f} s"),
        ("data", str(findings.data_dir)),
        ("results", str(findings.output_dir)),
    ]
    return [{"what": what, "value": value} for what, value in figures]


def _document(findings: Findings, modules: list[Row], streams: list[Row]) -> Row:
    return {
        "bootstrap": findings.bootstrap,
        "data_dir": str(findings.data_dir),
        "output_dir": str(findings.output_dir),
        "modules": modules,
        "windows": findings.windows,
        "hours": findings.hours,
        "paths": findings.paths,
        "streams": streams,
        "started_in_seconds": findings.started_in_seconds,
        "node_memory_bytes": findings.node_memory_bytes,
        "node_cpu_seconds": findings.node_cpu_seconds,
        "spark_seconds": findings.spark_seconds,
        "seconds": findings.seconds,
        "faults": findings.faults,
    }


def window_rows(windows: dict[tuple[int, str], tuple[int, float]]) -> list[Row]:
    """One row a window, a column for each metric's mean and one for the number of samples."""
    metrics = sorted({metric for _, metric in windows})
    rows: dict[int, Row] = {}
    for (start_ms, metric), (count, mean) in sorted(windows.items()):
        row = rows.setdefault(
            start_ms, {"window_utc": utc(start_ms).replace(".000", ""), "samples": 0} | dict.fromkeys(metrics)
        )
        row["samples"] += count
        row[metric] = round(mean, 1)
    return list(rows.values())


def _table(rows: list[Row], title: str) -> None:
    if rows:
        print_rows(rows, tuple(rows[0]), as_json=False, title=f"\n{title}")


def _rate(count: int, seconds: float) -> int | None:
    return round(count / seconds) if seconds else None


def _milliseconds(seconds: Sequence[float], share: float) -> float | None:
    return round(percentile(seconds, share) * 1000, 3) if seconds else None
