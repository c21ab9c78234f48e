"""Jobs of the library on real data, against plain Python over the same lines."""

import gzip
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import read_partition

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs import dead_letters, deduplication, replay_dead_letters, word_count
from hutong.pipelines.jobs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Fill = Callable[..., None]
Read = Callable[..., "DataFrame"]
DATA = Path(__file__).parents[2].parent / "shared" / "data"
TIME = r"try_to_timestamp(regexp_extract(string(value), '\\[([^\\]]+)\\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z')"
CLIENT = "split(string(value), ' ')[0]"
MALFORMED = 8898
"""The line, counted from 0, that its server did not write to its end."""


def lines_of(name: str) -> list[bytes]:
    if not (DATA / name).exists():
        pytest.skip(f"../shared/data/{name} is not there")
    return gzip.decompress((DATA / name).read_bytes()).splitlines()


def time_of(line: bytes) -> datetime:
    found = re.search(rb"\[([^\]]+)\]", line)
    assert found
    return datetime.strptime(found[1].decode(), "%d/%b/%Y:%H:%M:%S %z")


def given(job: Job, **parameters: str) -> dict[str, str]:
    return job.with_defaults(parameters)


def write(frame: "DataFrame", bootstrap: str, topic: str | None = None) -> None:
    options = {"kafka.bootstrap.servers": bootstrap} | ({"topic": topic} if topic else {})
    frame.write.format("hutong").options(**options).mode("append").save()


def run_into_memory(frame: "DataFrame", name: str) -> "DataFrame":
    """The result of a stream over everything."""
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return frame.sparkSession.table(name)


@pytest.mark.thorough
def test_of_all_requests_of_a_client_the_first_stays(read: Read, fill: Fill) -> None:
    lines = lines_of("apache_logs.gz")
    fill(lines)
    records = read().withColumns({"client": _expr(CLIENT), "time": _expr(TIME)})
    unique = deduplication.transform({"r": records}, given(deduplication.JOB, columns="client", event_time="time"))
    first: dict[bytes, tuple[Any, ...]] = {}
    for number, line in enumerate(lines):
        request = (time_of(line), number % 3, number // 3, line)
        client = line.split()[0]
        first[client] = min(first.get(client, request), request)
    assert {bytes(row["value"]) for row in unique.collect()} == {request[-1] for request in first.values()}
    assert len(first) == 1753


@pytest.mark.thorough
def test_a_stream_leaves_out_what_came_within_the_delay(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill
) -> None:
    lines = lines_of("apache_logs.gz")
    fill(lines)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("hutong").options(**options, maxOffsetsPerTrigger="4000").load()
    records = records.withColumns({"client": _expr(CLIENT), "time": _expr(TIME)})
    parameters = given(deduplication.JOB, columns="client", event_time="time", delay="2 hours")
    rows = run_into_memory(deduplication.transform({"r": records}, parameters), "unique").collect()
    times: dict[str, list[datetime]] = {}
    for row in rows:
        times.setdefault(row["client"], []).append(time_of(bytes(row["value"])))
    assert times.keys() == {line.split()[0].decode() for line in lines}, "nobody was left out for good"
    apart = [later - before for some in times.values() for before, later in pairwise(sorted(some))]
    assert min(apart) >= timedelta(hours=2)
    assert 1753 < len(rows) < 10_000


def test_a_line_that_cannot_be_read_becomes_a_dead_letter_and_is_sent_again(
    spark: "SparkSession", read: Read, bootstrap: str, topic: str, fill: Fill
) -> None:
    lines = lines_of("apache_logs.gz")
    fill(lines)
    for name in ("good", "letters"):
        create_topic(bootstrap, f"{topic}-{name}", records=0)
    parts = dead_letters.transform({"r": read(includeHeaders="true")}, given(dead_letters.JOB, format="combined"))
    write(parts["good"].select("key", "value"), bootstrap, f"{topic}-good")
    assert Counter(one.value() for one in read_partition(bootstrap, f"{topic}-good")) == Counter(
        lines[:MALFORMED] + lines[MALFORMED + 1 :]
    )
    write(parts["bad"], bootstrap, f"{topic}-letters")
    (letter,) = read_partition(bootstrap, f"{topic}-letters")
    assert letter.value() == lines[MALFORMED]
    headers = dict(letter.headers() or ())
    time_ms = int(headers.pop("source-timestamp") or b"")
    assert headers == {
        "reason": b"the line is not in the combined log format",
        "source-topic": topic.encode(),
        "source-partition": b"%d" % (MALFORMED % 3),
        "source-offset": b"%d" % (MALFORMED // 3),
    }
    letters = read(subscribe=f"{topic}-letters", includeHeaders="true")
    sent = replay_dead_letters.transform({"r": letters}, given(replay_dead_letters.JOB))
    assert sent["parked"].count() == 0
    write(sent["letters"], bootstrap)
    came = read(includeHeaders="true").where("headers IS NOT NULL").collect()
    assert [(bytes(row["value"]), row["headers"]) for row in came] == [(lines[MALFORMED], [("replays", b"1")])]
    assert [int(row["timestamp"].timestamp() * 1000) for row in came] == [time_ms]


def test_a_letter_that_came_back_too_often_stays(spark: "SparkSession") -> None:
    schema = "key binary, value binary, headers array<struct<key: string, value: binary>>"
    rows = [
        (None, b"twice", [("own", b"x"), ("replays", b"2"), ("reason", b"bad day"), ("source-topic", b"t")]),
        (None, b"thrice", [("replays", b"3"), ("reason", b"bad day"), ("source-topic", b"t")]),
        (None, b"lost", [("reason", b"bad day")]),
        (None, b"odd", [("replays", b"\xff"), ("reason", b"bad format"), ("source-topic", b"t")]),
    ]
    frames = {"r": spark.createDataFrame(rows, schema)}
    sent = replay_dead_letters.transform(frames, given(replay_dead_letters.JOB, reason="%day"))
    again = [(row["topic"], bytes(row["value"]), row["headers"]) for row in sent["letters"].collect()]
    assert again == [("t", b"twice", [("own", b"x"), ("replays", b"3")])]
    assert [row["headers"] for row in sent["parked"].collect()] == [rows[1][2], rows[2][2]]
    sent = replay_dead_letters.transform(frames, given(replay_dead_letters.JOB, topic="other"))
    assert sorted(bytes(row["value"]) for row in sent["letters"].where("topic = 'other'").collect()) == [
        b"lost",
        b"odd",
        b"twice",
    ]


def test_a_letter_with_a_time_that_no_record_has_gets_the_time_of_writing(spark: "SparkSession") -> None:
    times = [b"1500000000000", b"-5", b"99999999999999999999", b"9223372036854775807", b"x", None]
    rows = [(b"v", [("source-topic", b"t"), ("source-timestamp", time)]) for time in times]
    letters = spark.createDataFrame(rows, "value binary, headers array<struct<key: string, value: binary>>")
    sent = replay_dead_letters.transform({"r": letters}, given(replay_dead_letters.JOB))["letters"]
    kept = [row["ms"] for row in sent.selectExpr("unix_millis(timestamp) AS ms").collect()]
    assert kept == [1_500_000_000_000, None, None, None, None, None]
    now = replay_dead_letters.transform({"r": letters}, given(replay_dead_letters.JOB, timestamps="now"))
    assert "timestamp" not in now["letters"].columns


@pytest.mark.parametrize(
    ("parameters", "value", "reason"),
    [
        ({}, b'{"a": 1}', None),
        ({}, None, "the record has no value"),
        ({}, b"\xff", "the value is not UTF-8 text"),
        ({}, b'{"a": ', "the value is not JSON"),
        ({"schema": "a INT"}, b'{"a": 1, "b": 2}', None),
        ({"schema": "a INT"}, b"{}", None),
        ({"schema": "a INT"}, b'{"a": "x"}', "the value does not fit the schema"),
        ({"schema": "a INT"}, b"5", "the value does not fit the schema"),
        ({"format": "text"}, b"x", None),
        ({"format": "any"}, b"\xff", None),
        ({"format": "any", "condition": "length(value) > 1"}, b"x", "the condition does not hold: length(value) > 1"),
        ({"format": "any", "condition": "length(value) > 1"}, None, "the condition does not hold: length(value) > 1"),
    ],
)
def test_why_a_record_cannot_be_read(
    spark: "SparkSession", parameters: dict[str, str], value: bytes | None, reason: str | None
) -> None:
    frame = spark.createDataFrame([(value,)], "value binary").repartition(1)
    (row,) = frame.select(dead_letters.reason_of(given(dead_letters.JOB, **parameters)).alias("reason")).collect()
    assert row["reason"] == reason


def words_in(text: str) -> Iterator[str]:
    """Runs of letters, marks and digits, found without a regular expression."""
    word = ""
    for letter in text.lower() + " ":
        if unicodedata.category(letter)[0] in "LMN":
            word += letter
        elif word:
            yield word
            word = ""


@pytest.mark.thorough
def test_words_of_real_comments_in_many_scripts(
    spark: "SparkSession", read: Read, bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    lines = lines_of("wikiticker-2015-09-12-sampled.json.gz")
    fill([*lines, b"\xff\xfe", b"no JSON"])
    expected = Counter(word for line in lines for word in words_in(json.loads(line)["comment"]))
    parameters = given(word_count.JOB, json_path="$.comment")
    counted = word_count.transform({"r": read()}, parameters)
    assert {row["word"]: row["count"] for row in counted.collect()} == expected
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    streamed = word_count.transform({"r": spark.readStream.format("hutong").options(**options).load()}, parameters)
    create_topic(bootstrap, f"{topic}-counts", records=0)
    writer = streamed.select("key", "value").writeStream.format("hutong").outputMode("complete")
    target = {"kafka.bootstrap.servers": bootstrap, "topic": f"{topic}-counts"}
    writer = writer.options(**target).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.start().awaitTermination()
    table = {one.key(): int(one.value() or b"") for one in read_partition(bootstrap, f"{topic}-counts")}
    assert table == {word.encode(): count for word, count in expected.items()}


@pytest.mark.parametrize(
    ("job", "parameters", "message"),
    [
        (deduplication, {"columns": "user"}, "needs the column user, and the source has key, value"),
        (deduplication, {"columns": " , "}, "parameter columns is empty"),
        (dead_letters, {"format": "xml"}, "it must be one of any, text, json, combined"),
        (dead_letters, {"format": "text", "schema": "a INT"}, "leave one of them out"),
        (replay_dead_letters, {}, "needs the column headers"),
        (word_count, {"letters_min": "0"}, "must be a whole number from 1"),
    ],
)
def test_what_a_job_cannot_do_is_told(
    spark: "SparkSession", job: Any, parameters: dict[str, str], message: str
) -> None:
    schema = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    with pytest.raises(UsageError, match=message):
        job.transform({"r": spark.createDataFrame([], schema)}, given(job.JOB, **parameters))


def _expr(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)
