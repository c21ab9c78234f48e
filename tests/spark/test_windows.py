"""Windows and sessions over real data, against the same computed in plain Python, late rows included."""

import csv
import gzip
import io
import json
import random
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.streaming import batches_of, run_to_end, with_watermarks

from hutong.pipelines.jobs import sessions, windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parents[2].parent / "shared" / "data"
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
SERIES = "realAWSCloudwatch/"
RARELY = 100
"""One measurement in so many comes very late."""

Fill = Callable[..., None]
Measurement = tuple[str, datetime, float]
Visit = tuple[str, datetime]


def measurements() -> list[Measurement]:
    """Of the metrics of a cloud, as if they had come over a network: mostly minutes late, some for weeks."""
    if not (DATA / "nab-real.tar.gz").exists():
        pytest.skip("../shared/data/nab-real.tar.gz is not there")
    found: list[Measurement] = []
    with tarfile.open(DATA / "nab-real.tar.gz") as archive:
        for member in archive:
            if SERIES in member.name and member.name.endswith(".csv"):
                text = io.TextIOWrapper(archive.extractfile(member) or io.BytesIO(), "utf-8")
                name = member.name.rpartition("/")[2]
                found += [
                    (name, datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC), float(row["value"]))
                    for row in csv.DictReader(text)
                ]
    chance = random.Random(1)

    def arrival(one: Measurement) -> datetime:
        return one[1] + chance.random() * (30 * DAY if chance.randrange(RARELY) == 0 else 5 * MINUTE)

    return sorted(found, key=arrival)


def log_lines() -> list[bytes]:
    if not (DATA / "apache_logs.gz").exists():
        pytest.skip("../shared/data/apache_logs.gz is not there")
    return gzip.decompress((DATA / "apache_logs.gz").read_bytes()).splitlines()


def visit(line: bytes) -> Visit | None:
    """Client and time of a line that can be read."""
    if line.count(b'"') != 6:
        return None
    moment = datetime.strptime(line.decode().split("[")[1].split("]")[0], "%d/%b/%Y:%H:%M:%S %z")
    return line.decode().split()[0], moment.astimezone(UTC)


def as_json(one: Measurement) -> bytes:
    return json.dumps({"series": one[0], "time": one[1].isoformat(), "value": one[2]}).encode()


def of_json(records: "DataFrame") -> "DataFrame":
    schema = "series string, time timestamp, value double"
    return records.selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS row").select("row.*")


def in_utc(moment: datetime) -> datetime:
    """As Spark hands it to Python, which is in the local zone."""
    return moment.astimezone(UTC)


def starts(moment: datetime, length: timedelta, slide: timedelta) -> list[datetime]:
    """When the windows begin that a moment is in."""
    last = datetime.fromtimestamp(moment.timestamp() // slide.total_seconds() * slide.total_seconds(), UTC)
    return [last - index * slide for index in range(length // slide)]


def windows_by_hand(
    rows: Iterable[Measurement], length: timedelta, slide: timedelta
) -> dict[tuple[datetime, str], tuple[int, float]]:
    found: dict[tuple[datetime, str], list[float]] = defaultdict(list)
    for series, time, value in rows:
        for start in starts(time, length, slide):
            found[start, series].append(value)
    return {key: (len(values), max(values)) for key, values in found.items()}


def test_tumbling_windows_leave_out_what_comes_after_the_watermark(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    sent = measurements()
    fill(as_json(one) for one in sent)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("hutong").options(**options, maxOffsetsPerTrigger="20000").load()
    parameters = {
        "time": "time",
        "delay": "1 hour",
        "window": "1 hour",
        "by": "series",
        "aggregates": "count(*) AS count, max(value) AS highest",
    }
    ended = run_to_end(windows.transform({"metrics": of_json(stream)}, parameters), tmp_path)

    batches = list(with_watermarks(batches_of(ended.progress, sent), lambda one: one[1], HOUR))
    on_time = [one for batch, late, _ in batches for one in batch if starts(one[1], HOUR, HOUR)[0] + HOUR > late]
    final = batches[-1][2]
    expected = {key: row for key, row in windows_by_hand(on_time, HOUR, HOUR).items() if key[0] + HOUR <= final}
    got = {(in_utc(row.start), row.series): (row["count"], row.highest) for row in ended.rows}
    assert len(got) == len(ended.rows)
    assert got == expected
    assert len(on_time) < len(sent)
    assert sum(one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in ended.progress) > 0


def test_sliding_windows_of_a_whole_topic(read: "Callable[..., DataFrame]", fill: Fill) -> None:
    sent = measurements()[:20_000]
    fill(as_json(one) for one in sent)
    parameters = {"time": "time", "window": "2 hours", "slide": "30 minutes", "by": "series"}
    parameters["aggregates"] = "count(*) AS count, max(value) AS highest"
    rows = windows.transform({"metrics": of_json(read())}, parameters).collect()
    expected = windows_by_hand(sent, 2 * HOUR, 30 * MINUTE)
    assert {(in_utc(row.start), row.series): (row["count"], row.highest) for row in rows} == expected
    assert len(rows) == len(expected)


def sessions_by_hand(sent: Iterable[Visit], gap: timedelta) -> Counter[tuple[str, datetime, datetime, int]]:
    """Client, first and last time, and number of visits of each session."""
    times: dict[str, list[datetime]] = defaultdict(list)
    for client, time in sent:
        times[client].append(time)
    found: Counter[tuple[str, datetime, datetime, int]] = Counter()
    for client, moments in times.items():
        moments.sort()
        first = 0
        for index in range(1, len(moments) + 1):
            if index == len(moments) or moments[index] - moments[index - 1] > gap:
                found[client, moments[first], moments[index - 1], index - first] += 1
                first = index
    return found


def test_sessions_of_a_whole_log(read: "Callable[..., DataFrame]", fill: Fill) -> None:
    fill(log_lines())
    rows = sessions.transform({"web": read()}, {"lines": "combined", "by": "client", "gap": "30 minutes"}).collect()
    got = Counter((row.client, in_utc(row.start), in_utc(row.last), row.events) for row in rows)
    assert got == sessions_by_hand(filter(None, map(visit, log_lines())), 30 * MINUTE)
    assert sum(row.events for row in rows) == 9_999
    assert all(row.end - row.last == 30 * MINUTE for row in rows)


def test_a_stream_gives_a_session_once_it_is_over(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    """Sessions grow over batches; a visit whose own session would be over already is left out."""
    sent = log_lines()
    sent[6_000:6_000], sent[100:110] = sent[100:110], []
    fill(sent)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("hutong").options(**options, maxOffsetsPerTrigger="2000").load()
    parameters = {"lines": "combined", "by": "client", "gap": "30 minutes", "delay": "2 hours"}
    ended = run_to_end(sessions.transform({"web": stream}, parameters), tmp_path)

    gap = 30 * MINUTE
    visits = ([seen for line in batch if (seen := visit(line))] for batch in batches_of(ended.progress, sent))
    batches = list(with_watermarks(visits, lambda one: one[1], 2 * HOUR))
    kept = [one for batch, late, _ in batches for one in batch if one[1] + gap > late]
    final = batches[-1][2]
    over = {one: count for one, count in sessions_by_hand(kept, gap).items() if one[2] + gap <= final}
    assert Counter((row.client, in_utc(row.start), in_utc(row.last), row.events) for row in ended.rows) == over
    assert 0 < 9_999 - len(kept) <= 10
