"""The declaration of a pipeline: sources, a transform, sinks.

These classes hold what the user wrote, in TOML or as Python, and nothing else: they check nothing, so that `checking`
can report all problems at once, and start nothing. TOML's keys have the names of the fields; comments name the few that
differ. Knows nothing of Spark.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
"""Of pipelines: it names a folder, so nothing in it may lead elsewhere."""
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
TRIGGER_DEFAULT = "10 seconds"
AVAILABLE_NOW, BATCH = "available now", "batch"
"""Triggers that end by themselves: a stream up to the present end, and plain reading and writing with no checkpoint."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"
TOPIC, PARQUET, DELTA, CONSOLE = "topic", "parquet", "delta", "console"
SOURCE_KINDS = (TOPIC, PARQUET, DELTA)
SINK_KINDS = (TOPIC, PARQUET, DELTA, CONSOLE)
SOURCE_FORMATS = ("binary", "string", "json", "avro", "protobuf")
SINK_FORMATS = ("columns", "json", "avro", "protobuf")
OUTPUT_MODES = ("append", "update", "complete")
RESTARTS_DEFAULT = 10
GROUP_PREFIX = "hutong-pipeline-"

Frames = Mapping[str, "DataFrame"]
Function = Callable[[Frames, Mapping[str, str]], Any]
"""Gets the sources by name and the parameters; returns a DataFrame, or several by name."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """A bound on the lateness of rows, judged by the column `column`, such as "10 minutes"."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input; it becomes a DataFrame and a temporary view, both of the name it has in `Pipeline.sources`.

    Of `topic`, `topics` and `pattern` exactly one is given where `kind` is `topic`; else `path` is.
    """

    kind: str = TOPIC
    topic: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    path: str | None = None
    """A folder; a relative one is next to the pipeline's file."""
    schema: str | None = None
    """Of files, in Spark's words; read from the files where it is not given."""
    bootstrap: str | None = None
    """The pipeline's, unless given."""
    starting: str = "earliest"
    """`earliest`, `latest` or offsets by partition as JSON; ignored once a checkpoint has a position."""
    key_format: str = "binary"
    value_format: str = "binary"
    key_schema: str | None = None
    value_schema: str | None = None
    static: bool = False
    """Read whole when the run starts, as a table to join with, and not as a stream."""
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Any other option of Spark's reader, under its own name."""

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics it names; none for a pattern or for files."""
        return (self.topic,) if self.topic is not None else self.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """The transform of the sources: one of `sql`, `function` and `job`, or none to pass the source through."""

    sql: str | Mapping[str, str] | None = None
    """A query, or several by name; a later one may read an earlier one by its name."""
    function: str | Function | None = None
    """`FILE.py:NAME` or, in Python, the function itself."""
    job: str | None = None
    """The name of a job of the library."""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One output. `topic` belongs to the kind `topic`, `path` to `parquet` and `delta`."""

    kind: str = TOPIC
    frame: str | None = None
    """The DataFrame's name, if there are several; `from` in TOML."""
    topic: str | None = None
    path: str | None = None
    bootstrap: str | None = None
    delivery: str = EXACTLY_ONCE
    output_mode: str = "append"
    key: str | None = None
    """The column that becomes a record's key, as text."""
    value_format: str = "columns"
    """`columns`: the DataFrame has a column `value` as Spark's own sink wants it; `json`: all columns become one."""
    partition_by: tuple[str, ...] = ()
    """Columns that become folders of files."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A whole pipeline. Fields that are no tables are in TOML's table `pipeline`."""

    name: str
    sources: Mapping[str, Source]
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    transform: Transform = field(default_factory=Transform)
    bootstrap: str = BOOTSTRAP_DEFAULT
    trigger: str = TRIGGER_DEFAULT
    """The interval between batches, such as "10 seconds"; or `AVAILABLE_NOW` or `BATCH`."""
    restarts: int = RESTARTS_DEFAULT
    """The number of consecutive failures, with no batch completed between them, after which a restart follows."""
    group: str | None = None
    """The consumer group that shows the progress of sources to lag tools."""
    event_log: bool | None = None
    """True to keep Spark's event log of each run; by default of runs that end by themselves, since it only grows."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Settings of connections for all topics, such as `security.protocol`, as Kafka calls them."""
    spark: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    """The file it was read from; set by `reading`."""

    @property
    def folder(self) -> Path:
        """The base folder of relative paths."""
        return self.file.parent if self.file is not None else Path()

    @property
    def group_id(self) -> str:
        return self.group or GROUP_PREFIX + self.name

    @property
    def is_endless(self) -> bool:
        """True if it runs until it is stopped."""
        return self.trigger not in (AVAILABLE_NOW, BATCH)
