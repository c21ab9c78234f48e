"""Joins of two streams, and of a stream with a table, over real edits of Wikipedia, against dictionaries."""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.spark.streaming import run_to_end
from tests.support.confluent import producer

from hutong.pipelines.jobs import join, lookup
from hutong.pipelines.jobs.tables import latest_per_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parents[2].parent / "shared" / "data"
EDITS = "wikiticker-2015-09-12-sampled.json.gz"
AFTER, DELAY = timedelta(hours=1), timedelta(minutes=10)
COLUMNS = "row.page, row.channel, row.user, row.delta, row.time"
SCHEMA = "page string, channel string, user string, delta bigint, time timestamp"

Edit = dict[str, Any]
Records = Iterable[tuple[bytes | None, bytes | None]]


def edits() -> list[Edit]:
    if not (DATA / EDITS).exists():
        pytest.skip(f"../shared/data/{EDITS} is not there")
    return [json.loads(line) for line in gzip.decompress((DATA / EDITS).read_bytes()).splitlines()]


def time_of(edit: Edit) -> datetime:
    return datetime.fromisoformat(edit["time"])


def page_of(edit: Edit) -> tuple[str, str]:
    return edit["channel"], edit["page"]


def send(bootstrap: str, topic: str, records: Records, partition: int = -1) -> None:
    to = producer(bootstrap, linger_ms=5, queue_buffering_max_messages=1_000_000)
    for key, value in records:
        to.produce(topic, value, key=key, partition=partition)
    assert to.flush(60) == 0


def as_records(rows: Iterable[Edit]) -> Records:
    return ((row["channel"].encode(), json.dumps(row).encode()) for row in rows)


def parsed(records: "DataFrame") -> "DataFrame":
    row = f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row"
    return records.selectExpr(row, "CAST(key AS STRING) AS key").selectExpr("key", *COLUMNS.split(", "))


@pytest.fixture
def stream(spark: "SparkSession", bootstrap: str) -> "Callable[[str], DataFrame]":
    def load(topic: str) -> "DataFrame":
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("hutong").options(**options).load()

    return load


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["left", pytest.param("inner", marks=pytest.mark.thorough)])
def test_two_streams_join_within_their_time_bounds(
    stream: "Callable[[str], DataFrame]", bootstrap: str, topic: str, tmp_path: Path, kind: str
) -> None:
    """New pages beside what is edited on them within the hour; with `left`, pages without edits once that is sure."""
    everything = edits()
    made = [edit for edit in everything if edit["isNew"]]
    changes = [edit for edit in everything if not edit["isNew"]]
    create_topic(bootstrap, f"{topic}-made", records=0)
    send(bootstrap, f"{topic}-made", as_records(made))
    send(bootstrap, topic, as_records(changes))
    parameters = {
        "left": "made",
        "right": "changes",
        "on": "made.channel = changes.channel AND made.page = changes.page",
        "kind": kind,
        "after": "1 hour",
        "time": "time",
        "select": "made.channel, made.page, unix_millis(made.event_time) AS made, unix_millis(changes.time) AS changed",
    }
    frames = {"made": parsed(stream(f"{topic}-made")), "changes": parsed(stream(topic))}
    ended = run_to_end(join.transform(frames, parameters), tmp_path)

    def milliseconds(edit: Edit) -> int:
        return round(time_of(edit).timestamp() * 1000)

    by_page: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    for change in changes:
        by_page[page_of(change)].append(change)
    final = min(max(map(time_of, made)), max(map(time_of, changes))) - DELAY
    expected: Counter[tuple[str, str, int, int | None]] = Counter()
    for page in made:
        near = [one for one in by_page[page_of(page)] if timedelta() <= time_of(one) - time_of(page) <= AFTER]
        expected.update((*page_of(page), milliseconds(page), milliseconds(one)) for one in near)
        if kind == "left" and not near and time_of(page) + AFTER < final:
            expected[*page_of(page), milliseconds(page), None] += 1
    assert Counter((row.channel, row.page, row.made, row.changed) for row in ended.rows) == expected
    assert len({key for key in expected if key[3] is not None}) > 10


def test_a_topic_is_a_table_of_the_latest_value_of_each_key(
    read: "Callable[..., DataFrame]", bootstrap: str, topic: str
) -> None:
    rows = edits()
    send(bootstrap, topic, as_records(rows))
    send(bootstrap, topic, [(b"#en.wikipedia", None), (None, b"no key"), (b"#back", None), (b"#back", b"again")])
    table = latest_per_key(read()).collect()
    expected = {row["channel"].encode(): json.dumps(row).encode() for row in rows}
    del expected[b"#en.wikipedia"]
    assert {bytes(row.key): bytes(row.value) for row in table} == {**expected, b"#back": b"again"}
    assert len(table) == len(expected) + 1


def test_a_key_that_moved_to_another_partition_is_judged_by_time(
    read: "Callable[..., DataFrame]", bootstrap: str, topic: str
) -> None:
    """As after a topic was given more partitions: there the later record has the smaller offset."""
    send(bootstrap, topic, [(b"k", b"%d" % number) for number in range(5)], partition=0)
    send(bootstrap, topic, [(b"k", b"moved")], partition=1)
    (row,) = latest_per_key(read()).collect()
    assert (bytes(row.value), row.partition, row.offset) == (b"moved", 1, 0)


def test_a_stream_looks_up_what_a_table_holds_at_each_batch(
    stream: "Callable[[str], DataFrame]", read: "Callable[..., DataFrame]", bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, f"{topic}-totals", records=0)
    rows = edits()[:4_000]
    totals: Counter[str] = Counter()
    versions = []
    for row in rows[:2_000]:
        totals[row["channel"]] += row["delta"]
        versions.append((row["channel"].encode(), b"%d" % totals[row["channel"]]))
    send(bootstrap, f"{topic}-totals", versions)
    send(bootstrap, topic, as_records(rows[2_000:3_000]))
    table = read(subscribe=f"{topic}-totals", refresh="true")
    parameters = {
        "stream": "edits",
        "table": "totals",
        "on": "edits.channel = CAST(totals.key AS STRING)",
        "select": "edits.page, edits.channel, CAST(totals.value AS STRING) AS total",
    }
    joined = lookup.transform({"edits": parsed(stream(topic)), "totals": table}, parameters)
    found: list[Any] = []
    query = joined.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
    try:
        query.processAllAvailable()
        assert Counter(map(tuple, found)) == with_totals(rows[2_000:3_000], totals)
        found.clear()
        send(bootstrap, f"{topic}-totals", [(b"#en.wikipedia", b"7"), (b"#fr.wikipedia", None)])
        send(bootstrap, topic, as_records(rows[3_000:]))
        query.processAllAvailable()
    finally:
        query.stop()
    totals["#en.wikipedia"] = 7
    del totals["#fr.wikipedia"]
    assert Counter(map(tuple, found)) == with_totals(rows[3_000:], totals)


def with_totals(rows: Iterable[Edit], totals: Counter[str]) -> Counter[tuple[str, str, str | None]]:
    known = {channel: str(total) for channel, total in totals.items()}
    return Counter((row["page"], row["channel"], known.get(row["channel"])) for row in rows)


@pytest.mark.thorough
def test_a_stream_looks_up_rows_of_files(
    spark: "SparkSession", stream: "Callable[[str], DataFrame]", bootstrap: str, topic: str, tmp_path: Path
) -> None:
    rows = edits()[:1_000]
    channels = sorted({row["channel"] for row in rows})[::2]
    spark.createDataFrame([(name, len(name)) for name in channels], "name string, length int").write.parquet(
        str(tmp_path / "channels")
    )
    send(bootstrap, topic, as_records(rows))
    frames = {"edits": parsed(stream(topic)), "channels": spark.read.parquet(str(tmp_path / "channels"))}
    parameters = {"stream": "edits", "table": "channels", "on": "edits.channel = channels.name", "kind": "inner"}
    joined = lookup.transform(frames, {**parameters, "broadcast": "true"})
    assert joined.columns[-2:] == ["channels_name", "channels_length"]
    found = run_to_end(joined, tmp_path / "checkpoint").rows
    expected = [(row["page"], len(row["channel"])) for row in rows if row["channel"] in channels]
    assert Counter((row.edits_page, row.channels_length) for row in found) == Counter(expected)
