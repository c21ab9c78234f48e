"""The files that `hutong pipeline init` writes: complete pipelines that run as they are once the topic is there."""

import re
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.declared.declare.definition import NAME
from hutong.pipelines.declared.declare.problems import suggestion
from hutong.pipelines.jobs import JOBS
from hutong.pipelines.jobs.job import filled

TOPIC_MARK = "@TOPIC@"
TOPIC_DEFAULT = "my-topic"

SQL = '''\
# A data pipeline for `hutong pipeline`: topics come in, Spark computes, topics or files go out.
# Check it with `hutong pipeline validate`, run it with `hutong pipeline run`.

@PIPELINE@
trigger = "5 seconds"             # or "available now" (up to the present end, then end), or "batch"

[sources.records]                 # becomes a view of this name for SQL
topic = "@TOPIC@"
starting = "earliest"
value_format = "string"           # or "json" or "avro", with value_schema = "user STRING, bytes BIGINT"; or "binary"

[transform]
sql = """
SELECT key, upper(value) AS value, timestamp
FROM records
WHERE value IS NOT NULL
"""

[sinks.out]                       # there may be several sinks
kind = "console"                  # or "topic" with topic = "...", or "parquet" with path = "..."
'''
PYTHON = '''\
"""A data pipeline for `hutong pipeline`: topics come in, Spark computes, topics or files go out."""

from hutong.pipelines.declared import Pipeline, Sink, Source, Transform


def transform(frames, parameters):
    """Gets the sources by name; returns a DataFrame, or several by name."""
    from pyspark.sql import functions as f

    records = frames["records"]
    return records.where(records.value.isNotNull()).select("key", f.upper("value").alias("value"), "timestamp")


pipeline = Pipeline(
    name="@NAME@",
    bootstrap="@BOOTSTRAP@",
    trigger="5 seconds",
    sources={"records": Source(topic="@TOPIC@", value_format="string")},
    transform=Transform(function=transform),
    sinks={"out": Sink(kind="console")},
)
'''


def write_template(
    name: str, folder: Path, *, job: str | None, topic: str | None, bootstrap: str, python: bool
) -> tuple[Path, bool]:
    """Write the file of a new pipeline.

    Return its path, and True if its topic is still to be filled in. Raises UsageError.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"a pipeline cannot be called '{name}': take small letters, digits and dashes, at most 100")
    text = _template(job, python)
    suffix = ".py" if python else ".toml"
    file = folder / f"{name.replace('-', '_') if python else name}{suffix}"
    has_topic = TOPIC_MARK in text or 'topic = "' in text
    text = filled(text, name, bootstrap).replace(TOPIC_MARK, topic or TOPIC_DEFAULT)
    if job is not None and topic is not None:  # the templates of jobs name their topics as examples
        text = re.sub(r'^topic = "[^"]*"', lambda _: f'topic = "{topic}"', text, count=1, flags=re.MULTILINE)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file.name} is there already: choose another name", ExitCode.CANTCREAT) from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", ExitCode.CANTCREAT) from error
    return file, has_topic and topic is None


def _template(job: str | None, python: bool) -> str:
    if job is None:
        return PYTHON if python else SQL
    declared: dict[str, str] = {one.name: one.template for one in JOBS.values() if one.template is not None}
    if job not in declared:
        raise UsageError(f"there is no job {job} for a pipeline{suggestion(job, declared)}")
    if python:
        raise UsageError("a job of the library is declared in TOML: leave out --python")
    return declared[job]
