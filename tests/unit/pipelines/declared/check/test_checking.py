"""What is wrong with a declaration is told without a broker and without Spark."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutong.pipelines.declared import Pipeline, Sink, Source, Transform, Watermark
from hutong.pipelines.declared.check.checking import check
from hutong.pipelines.declared.check.options import reader_options, writer_options
from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, BATCH
from hutong.pipelines.declared.declare.problems import Problems

GOOD = Pipeline(name="web", sources={"a": Source(topic="t")}, sinks={"o": Sink(topic="u")})


def problems_of(pipeline: Pipeline) -> list[str]:
    problems = Problems()
    check(pipeline, problems)
    return [str(problem) for problem in problems.found]


def source(**values: Any) -> Pipeline:
    return replace(GOOD, sources={"a": Source(**values)})


def sink(**values: Any) -> Pipeline:
    return replace(GOOD, sinks={"o": Sink(**values)})


def transform(**values: Any) -> Pipeline:
    return replace(GOOD, transform=Transform(**values))


@pytest.mark.parametrize("trigger", ["10 seconds", "1 minute", "500 milliseconds", AVAILABLE_NOW, BATCH])
def test_a_good_pipeline_has_no_problem(trigger: str) -> None:
    assert problems_of(replace(GOOD, trigger=trigger)) == []


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        (replace(GOOD, name="Web!"), "pipeline.name: is 'Web!': take small letters"),
        (replace(GOOD, trigger="often"), "pipeline.trigger: is 'often': write an interval"),
        (replace(GOOD, restarts=-1), "pipeline.restarts: is -1"),
        (replace(GOOD, sources={}), "sources: there is none"),
        (replace(GOOD, sinks={}), "sinks: there is none"),
        (replace(GOOD, bootstrap="nowhere"), "sources.a: option kafka.bootstrap.servers is not valid"),
        (replace(GOOD, sources={"a-b": Source(topic="t")}), "sources.a-b: cannot name a view"),
        (replace(GOOD, sources={"a": Source(topic="t"), "b": Source(topic="t")}), "transform: is missing"),
        (source(), "sources.a: names no topic"),
        (source(topic="t", pattern="u.*"), "sources.a: has topic and pattern: take one of them"),
        (source(topic="t", kind="topik"), "sources.a.kind: is 'topik'; did you mean topic?"),
        (source(topic="t", path="p"), 'sources.a.path: does not belong to kind = "topic"'),
        (source(kind="parquet"), "sources.a.path: is missing"),
        (source(kind="parquet", path="p", topic="t"), "sources.a.topic: does not belong"),
        (source(topic="t", value_format="jsn"), "sources.a.value_format: is 'jsn'; did you mean json?"),
        (source(topic="t", value_format="json"), "sources.a.value_schema: is missing"),
        (source(topic="t", value_format="avro"), "sources.a.value_schema: is missing"),
        (source(topic="t", value_format="avro", options={"schema.registry.url": "h"}), "must be http://HOST:PORT"),
        (source(pattern="t.*", value_format="avro", options={"schema.registry.url": "http://h"}), "valueSubject must"),
        (sink(topic="u", value_format="avro"), "sinks.o: option schema.registry.url must be given"),
        (source(topic="t", starting="{"), "startingOffsets is not valid"),
        (source(topic="t", watermark=Watermark("timestamp", "long")), "sources.a.watermark.delay: is 'long'"),
        (source(topic="t", options={"failOnDataLoss": "maybe"}), "failOnDataLoss is 'maybe'"),
        (source(topic="t", options={"maxOffsetPerTrigger": "9"}), "did you mean maxOffsetsPerTrigger?"),
        (source(topic="t", options={"xyz": "red"}), "sources.a.options.xyz: is no option of a topic: it has no"),
        (
            sink(topic="u", options={"topik": "x"}),
            "sinks.o.options.topik: is no option of a topic; did you mean topic?",
        ),
        (sink(kind="topics"), "sinks.o.kind: is 'topics'; did you mean topic?"),
        (sink(topic="u", delivery="twice"), "sinks.o.delivery: is 'twice'"),
        (sink(topic="u", output_mode="apend"), "sinks.o.output_mode: is 'apend'; did you mean append?"),
        (sink(topic="u", output_mode="update"), "a stream sends no updates to a topic"),
        (sink(topic="u", path="p"), "sinks.o.path: does not belong"),
        (sink(kind="parquet"), "sinks.o.path: is missing"),
        (sink(kind="parquet", path="p", output_mode="complete"), "a stream only appends to parquet"),
        (sink(kind="console", topic="u"), "sinks.o.topic: does not belong"),
        (sink(topic="u", options={"kafka.compression.type": "rar"}), "kafka.compression.type is 'rar'"),
        (transform(sql="", job=None), "transform.sql: holds no query"),
        (transform(sql="SELECT 1", function="a.py:f"), "transform: has sql and function"),
        (transform(sql={"a": "SELECT 1"}), "transform.sql.a: has the name of a source"),
        (transform(sql={"x": "SELECT 1", "y": "SELECT 2"}), "sinks.o.from: is missing: the transform gives x, y"),
        (transform(function="mine"), "transform.function: is 'mine': write FILE.py:NAME"),
        (transform(function="absent.py:f"), "names absent.py, which is not there"),
        (transform(job="nonsense"), "transform.job: is 'nonsense', which is not in the library"),
        (replace(sink(topic="u", frame="z"), transform=Transform(sql={"x": "SELECT 1"})), "sinks.o.from: is 'z'"),
    ],
)
def test_what_is_wrong_is_told(pipeline: Pipeline, told: str) -> None:
    assert any(told in problem for problem in problems_of(pipeline)), problems_of(pipeline)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def transfrom(frames, parameters): pass", "which mine.py does not define; did you mean transfrom?"),
        ("def transform(frames): pass", "which must take two things"),
        ("def transform(frames, parameters, *, x): pass", "which must take two things"),
        ("def transform(:", "which is not Python, line 1"),
        ("def transform(frames, parameters): pass", None),
        ("def transform(*everything): pass", None),
        ("def transform(frames, parameters, more=1): pass", None),
        ("from elsewhere import transform", None),
        ("transform = print", None),
    ],
)
def test_a_function_is_looked_for_without_running_its_file(text: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text + "\n")
    pipeline = replace(transform(function="mine.py:transform"), file=tmp_path / "p.toml")
    problems = problems_of(pipeline)
    assert problems == [] if told is None else [one for one in problems if told in one], problems


def test_schemas_of_a_registry_are_not_looked_up() -> None:
    options = {"schema.registry.url": "http://h"}
    assert problems_of(source(topic="t", value_format="avro", options=options)) == []
    pipeline = sink(topic="u", value_format="avro", options=options)
    assert problems_of(pipeline) == []
    assert writer_options(pipeline, pipeline.sinks["o"])["valueFormat"] == "avro"


def test_a_source_stands_for_options() -> None:
    pipeline = replace(
        source(topics=("t", "u"), value_format="json", value_schema="n INT", options={"maxOffsetsPerTrigger": "7"}),
        kafka={"security.protocol": "SSL"},
    )
    assert reader_options(pipeline, pipeline.sources["a"]) == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.security.protocol": "SSL",
        "kafka.group.id": "hutong-pipeline-web",
        "kafka.isolation.level": "read_committed",
        "subscribe": "t,u",
        "startingOffsets": "earliest",
        "valueFormat": "json",
        "valueSchema": "n INT",
        "maxOffsetsPerTrigger": "7",
    }


def test_what_the_user_says_about_the_start_stands_alone() -> None:
    pipeline = source(topic="t", options={"startingTimestamp": "5"})
    assert "startingOffsets" not in reader_options(pipeline, pipeline.sources["a"])


def test_a_sink_stands_for_options(tmp_path: Path) -> None:
    pipeline = replace(GOOD, file=tmp_path / "p.toml")
    assert writer_options(pipeline, Sink(topic="u", bootstrap="h:1")) == {
        "kafka.bootstrap.servers": "h:1",
        "topic": "u",
        "delivery": "exactly-once",
    }
    assert writer_options(pipeline, Sink(kind="parquet", path="p")) == {"path": str(tmp_path / "p")}
    assert writer_options(pipeline, Sink(kind="parquet", path="s3a://b/p")) == {"path": "s3a://b/p"}
