"""Keys and values as typed columns, filters that narrow what is read, and what a user sees of bad records."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.confluent import producer

from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
Fill = Callable[..., None]
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "wikiticker-2015-09-12-sampled.json.gz"
SCRIPT = Path(__file__).with_name("plain_script.py")
SCRIPT_S_MAX = 600
START_MS = 1_700_000_000_000
EDIT = "time TIMESTAMP, channel STRING, user STRING NOT NULL, isNew BOOLEAN, metroCode INT, added BIGINT NOT NULL"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}


def test_json_documents_are_columns(fill: Fill, read: Read) -> None:
    if not DATA.exists():
        pytest.skip("../shared/data/wikiticker-2015-09-12-sampled.json.gz is not there")
    lines = gzip.decompress(DATA.read_bytes()).splitlines()
    edits = [json.loads(line) for line in lines]
    fill(lines)
    frame = read(valueFormat="json", valueSchema=EDIT, columns="value").select("value.*")
    assert frame.columns == ["time", "channel", "user", "isNew", "metroCode", "added"]
    found = frame.groupBy("channel").agg({"added": "sum", "*": "count", "metroCode": "count"}).collect()
    rows = {row.channel: (row["count(1)"], row["sum(added)"], row["count(metroCode)"]) for row in found}
    counts = Counter(edit["channel"] for edit in edits)
    assert rows == {
        channel: (
            count,
            sum(edit["added"] for edit in edits if edit["channel"] == channel),
            sum(edit["metroCode"] is not None for edit in edits if edit["channel"] == channel),
        )
        for channel, count in counts.items()
    }
    assert frame.where("hour(time) = 5").count() == sum(edit["time"][11:13] == "05" for edit in edits)


def test_avro_that_java_wrote_is_read(
    spark: "SparkSession", bootstrap: str, topic: str, read: Read, tmp_path: Path
) -> None:
    """Spark brings Avro's own library for Java, though not its `from_avro`."""
    documents = [
        {"id": 1, "note": {"string": "ä"}, "price": "\u0000\u00ff", "at": START_MS, "tags": ["a", "b"], "counts": {}},
        {"id": -(2**62), "note": None, "price": "\u00ff", "at": -1, "tags": [], "counts": {"k": -7}},
    ]
    sender = producer(bootstrap)
    for document in documents:
        sender.produce(topic, b"\0\0\0\0\7" + _avro(spark, json.dumps(document)), "ключ".encode(), partition=1)
    assert sender.flush(30) == 0
    options = {
        "valueFormat": "avro",
        "valueSchema": json.dumps(ORDER),
        "valueFraming": "confluent",
        "keyFormat": "string",
    }
    frame = read(**options).orderBy("offset")
    columns = "key", "value.id", "value.note", "cast(value.price as string)", "unix_millis(value.at)"
    rows = [tuple(row) for row in frame.selectExpr(*columns, "value.tags", "value.counts").collect()]
    assert rows == [
        ("ключ", 1, "ä", "2.55", START_MS, ["a", "b"], {}),
        ("ключ", -(2**62), None, "-0.01", -1, [], {"k": -7}),
    ]


def _avro(spark: "SparkSession", document: str) -> bytes:
    java: Any = spark._jvm
    avro = java.org.apache.avro
    parsed = getattr(java, "org.apache.avro.Schema$Parser")().parse(json.dumps(ORDER))
    value = avro.generic.GenericDatumReader(parsed).read(
        None, avro.io.DecoderFactory.get().jsonDecoder(parsed, document)
    )
    stream = java.java.io.ByteArrayOutputStream()
    encoder = avro.io.EncoderFactory.get().binaryEncoder(stream, None)
    avro.generic.GenericDatumWriter(parsed).write(value, encoder)
    encoder.flush()
    return bytes(stream.toByteArray())


def test_what_cannot_be_decoded_fails_or_is_set_aside(fill: Fill, read: Read, topic: str) -> None:
    from hutong.pipelines import plain_errors

    fill([b'{"n": 1}', b'{"n": "two"}', b"three"], partition=0)
    typed = {"valueFormat": "json", "valueSchema": "n INT"}
    with (
        pytest.raises(UsageError, match=rf"^the value at offset 1 of {topic}-0 is not JSON of its schema: field n: "),
        plain_errors(),
    ):
        read(**typed).collect()
    assert [row.value for row in read(onUndecodable="skip", **typed).select("value.n").toDF("value").collect()] == [1]
    nulls = read(onUndecodable="null", **typed).orderBy("offset").select("value").collect()
    assert [row.value and row.value.n for row in nulls] == [1, None, None]
    kept = read(onUndecodable="keep", **typed).where("undecodable IS NOT NULL").orderBy("offset")
    assert [bytes(row.content) for row in kept.select("undecodable.*").collect()] == [b'{"n": "two"}', b"three"]


def test_filters_narrow_what_is_read(spark: "SparkSession", fill: Fill, read: Read, bootstrap: str, topic: str) -> None:
    sender = producer(bootstrap)
    for number in range(30):
        sender.produce(topic, b"%d" % number, partition=number % 3, timestamp=START_MS + 1000 * number)
    assert sender.flush(30) == 0
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        frame = read(pushFilters="true").selectExpr("*", "cast(value as string) as text")
        one = frame.where("partition = 1 and offset >= 4 and offset < 6")
        assert (one.rdd.getNumPartitions(), sorted(row.text for row in one.collect())) == (1, ["13", "16"])
        late = frame.where(f"timestamp >= timestamp_millis({START_MS + 27_500}L) and topic = '{topic}'")
        assert (late.rdd.getNumPartitions(), sorted(row.text for row in late.collect())) == (2, ["28", "29"])
        assert frame.where("topic = 'another'").count() == 0
        assert frame.where("text like '1%'").count() == 11
    finally:
        spark.conf.unset(setting)
    assert read().where("partition = 1 and offset < 2").count() == 2


@pytest.mark.thorough
def test_a_plain_script_shows_our_sentence_before_anything_of_java(bootstrap: str, topic: str, fill: Fill) -> None:
    fill([b'{"n": 1}', b'{"n": "two"}'], partition=0)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), bootstrap, topic],
        capture_output=True,
        text=True,
        check=False,
        timeout=SCRIPT_S_MAX,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 1
    bad_value = f"the value at offset 1 of {topic}-0 is not JSON of its schema: field n: Expected `int`, got `str`"
    parts = dict(part.split("\n", 1) for part in done.stderr.split("=== ")[1:])
    for name, sentence in (("batch", bad_value), ("stream", "topic no-such-topic does not exist")):
        told = parts[name].index(f"hutong: {sentence}")
        java = parts[name].find("\tat org.apache.spark")
        assert java < 0 or told < java, parts[name]
    assert "topic no-such-topic does not exist" in parts["caught"].splitlines()[-1]
    assert "\tat " not in parts["caught"]
