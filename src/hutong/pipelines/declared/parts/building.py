"""Makes Spark's parts of a declaration: sources become DataFrames, the transform is applied, sinks become writers.

Failures occur while Spark analyses, before anything is read; `Place` names the part of the declaration.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.declared.check.checking import job_of
from hutong.pipelines.declared.check.options import format_of, is_streaming, reader_options
from hutong.pipelines.declared.declare.definition import TOPIC, Pipeline, Sink, Source
from hutong.pipelines.declared.declare.problems import suggestion
from hutong.pipelines.declared.declare.reading import load_module
from hutong.pipelines.engine.failures import analysis_sentence, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULT = "result"
"""The name of a DataFrame whose transform gives only one."""
TOPIC_COLUMNS = ("key", "topic", "partition", "headers")
"""Columns that are no part of a JSON value, since the sink gives them a meaning."""
RECORD_TIME = "timestamp"
"""Kept where `value` is a column. A JSON value has all columns in it, and its record the time of writing."""


class BuildError(UsageError):
    """A part of a declaration that Spark refuses. `where` is its place."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}", ExitCode.CONFIG)
        self.where, self.what = where, message


def frames_of(session: "SparkSession", pipeline: Pipeline, *, streaming: bool = True) -> "dict[str, DataFrame]":
    """The sources as DataFrames and temporary views. Without `streaming`, all of them as tables."""
    frames = {}
    for name, source in pipeline.sources.items():
        with place(f"sources.{name}"):
            frame = _frame(session, pipeline, source, streaming=streaming and is_streaming(pipeline, source))
            # SQL transforms refer to sources by their names.
            frame.createOrReplaceTempView(name)
            frames[name] = frame
    return frames


def transformed(
    session: "SparkSession", pipeline: Pipeline, frames: "Mapping[str, DataFrame]"
) -> "dict[str, DataFrame]":
    """Apply the transform to the sources; results by name. Not for jobs that read and write themselves."""
    transform = pipeline.transform
    # A single query needs no name: there is one output.
    if isinstance(transform.sql, str):
        with place("transform.sql"):
            return {RESULT: session.sql(transform.sql)}
    if transform.sql is not None:
        return _queries(session, transform.sql)
    if transform.job is not None:
        job = job_of(transform)
        assert job is not None  # `checking` refuses others
        with place("transform.job"):
            function = import_module(job.module_name).transform
            return _named("transform.job", function(frames, job.with_defaults(transform.parameters)))
    if transform.function is not None:
        with place("transform.function"):
            return _named("transform.function", _function(pipeline)(frames, transform.parameters))
    (only,) = frames.values()  # `checking` refuses several without a transform
    return {RESULT: only}


def output_of(name: str, sink: Sink, outputs: "Mapping[str, DataFrame]") -> "DataFrame":
    """Choose the frame for a sink: the one it names, else the only one, else the one with the sink's name."""
    wanted = sink.frame
    if wanted is None:
        # A single output needs no name.
        wanted = name if name in outputs or len(outputs) != 1 else next(iter(outputs))
    if wanted not in outputs:
        given = ", ".join(outputs)
        raise BuildError(f"sinks.{name}.from", f"there is no output {wanted}: the transform gives {given or 'none'}")
    with place(f"sinks.{name}"):
        return _shaped(name, sink, outputs[wanted])


def _frame(session: "SparkSession", pipeline: Pipeline, source: Source, *, streaming: bool) -> "DataFrame":
    options = reader_options(pipeline, source)
    reader = session.readStream if streaming else session.read
    if source.kind == TOPIC:
        frame = reader.format(format_of(source.kind)).options(**options).load()
    else:
        schema = source.schema
        if schema is None and streaming and source.kind != "delta":  # a stream of files needs a given schema
            # A batch read infers the schema from the files that exist now; streams refuse to infer.
            frame = session.read.format(source.kind).options(**options).load()
            reader = session.readStream.schema(frame.schema)
        # With a schema Spark need not read files to infer one.
        elif schema is not None:
            reader = reader.schema(schema)
        frame = reader.format(source.kind).options(**options).load()
    # Watermarks mean nothing in a batch.
    if source.watermark is not None and streaming:
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    return frame


def _queries(session: "SparkSession", queries: Mapping[str, str]) -> "dict[str, DataFrame]":
    outputs = {}
    for name, query in queries.items():
        with place(f"transform.sql.{name}"):
            outputs[name] = session.sql(query)
            # Later queries may build on earlier ones.
            outputs[name].createOrReplaceTempView(name)
    return outputs


def _function(pipeline: Pipeline) -> Any:
    function = pipeline.transform.function
    # A pipeline declared in Python holds the function itself.
    if callable(function):
        _ship_by_value(sys.modules.get(function.__module__))
        return function
    path, _, name = str(function).rpartition(":")
    module = load_module(Path(pipeline.folder, path))
    _ship_by_value(module)
    return getattr(module, name)


def _ship_by_value(module: Any) -> None:
    """Functions of the user's file travel to the workers as code: the workers do not have the file."""
    from pyspark.cloudpickle import register_pickle_by_value

    # Installed packages exist on the workers and travel by name.
    if module is not None and not module.__name__.startswith(("hutong.", "pyspark.")):
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _named(where: str, outputs: Any) -> "dict[str, DataFrame]":
    from pyspark.sql import DataFrame

    # A single result needs no name.
    if isinstance(outputs, DataFrame):
        return {RESULT: outputs}
    if isinstance(outputs, Mapping) and all(isinstance(one, DataFrame) for one in outputs.values()):
        return dict(outputs)
    raise BuildError(where, f"must return a DataFrame or several by name, not {type(outputs).__name__}")


def _shaped(name: str, sink: Sink, frame: "DataFrame") -> "DataFrame":
    """A DataFrame with the columns its sink needs."""
    where = f"sinks.{name}"
    _require(where, "key", [sink.key] if sink.key is not None else [], frame)
    _require(where, "partition_by", sink.partition_by, frame)
    # Files and the console take the columns as they are.
    if sink.kind != TOPIC:
        return frame
    from pyspark.sql import functions as f

    columns = {column: f.col(f"`{column}`") for column in frame.columns}
    kept = {column: columns[column] for column in TOPIC_COLUMNS if column in columns}
    if sink.key is not None:
        # The bytes of a key must not depend on its column's type.
        kept["key"] = columns[sink.key].cast("string")
    if sink.value_format in ("json", "avro", "protobuf"):
        # Columns that steer the sink (topic, partition, headers) are no content, unless one is the key.
        content = [one for column, one in columns.items() if column not in TOPIC_COLUMNS or column == sink.key]
        kept["value"] = f.struct(*content)
        # Nulls are written, so that a consumer can distinguish null from absent.
        if sink.value_format == "json":
            kept["value"] = f.to_json(kept["value"], {"ignoreNullFields": "false"})
    elif "value" in columns:
        kept |= {column: columns[column] for column in ("value", RECORD_TIME) if column in columns}
    else:
        advice = 'write value_format = "json" to make one of all columns, or name one value'
        raise BuildError(where, f"a topic needs a column value, and there are {', '.join(frame.columns)}: {advice}")
    # As in Spark's own Kafka sink: an option names the topic, or a column does for each row.
    if sink.topic is None and "topic" not in columns and "topic" not in sink.options:
        raise BuildError(where, 'no topic is given: add topic = "...", or a column named topic')
    return frame.select(*(column.alias(name) for name, column in kept.items()))


def _require(where: str, key: str, wanted: "list[str] | tuple[str, ...]", frame: "DataFrame") -> None:
    for column in wanted:
        if column not in frame.columns:
            raise BuildError(f"{where}.{key}", f"there is no column {column}{suggestion(column, frame.columns)}")


@contextmanager
def place(where: str) -> Iterator[None]:
    """Turn Spark's analysis errors into a BuildError that names the place. Errors that may pass stay as they are."""
    from pyspark.errors import PySparkException

    try:
        yield
    except UsageError as error:
        # An inner place is more precise; an unavailable broker is no fault of the declaration.
        if isinstance(error, BuildError) or error.exit_code == ExitCode.UNAVAILABLE:
            raise
        raise BuildError(where, str(error)) from error
    except PySparkException as error:
        reported = translate(error)
        if isinstance(reported, UsageError) and reported.exit_code == ExitCode.UNAVAILABLE:
            raise reported from error
        raise BuildError(where, analysis_sentence(error)) from error
