"""Events: how the jobs on time and joins read their sources and parameters.

Expressions in parameters are Spark SQL over the columns of the source and are checked by Spark; the rest is checked
here, before Spark starts anything. Parameters are complete, defaults filled in. Knows no job.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs.job import JobParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_TIME = "event_time"
"""The column that holds the time of an event, whatever it was made of."""
COMBINED_LINES = "combined"
DELAY = "10 minutes"
DURATION = re.compile(r"(?:\s*[0-9]+ (?:microsecond|millisecond|second|minute|hour|day|week)s?)+\s*")
"""As Spark writes lengths of time; months and years have none."""

SOURCE = JobParameter("source", "", "the source to read, where there are several")
TIMED = (
    JobParameter(
        "lines", "", "combined: values are lines of an access log, which give client, time, path, status, bytes"
    ),
    JobParameter(
        "time", "", "the time of an event, in SQL; by default the record's timestamp, or the time in its line"
    ),
    JobParameter("delay", DELAY, "how late events may come; empty for the source's own watermark"),
)
"""The parameters of `timed`."""

Parameters = Mapping[str, str]
Frames = Mapping[str, "DataFrame"]


def required(parameters: Parameters, name: str, meaning: str) -> str:
    """A parameter without a default. Raises UsageError where it is missing or empty."""
    value = parameters.get(name, "").strip()
    if not value:
        raise UsageError(f"the parameter {name} is missing: set it to {meaning}")
    return value


def duration(parameters: Parameters, name: str) -> str:
    """A length of time such as `10 minutes`."""
    value = parameters[name].strip()
    if not DURATION.fullmatch(value):
        raise UsageError(f"the parameter {name} is {value!r}, which is no length of time: write it as 10 minutes")
    return value


def optional_duration(parameters: Parameters, name: str) -> str | None:
    """A length of time, or None where the parameter is empty."""
    return duration(parameters, name) if parameters[name].strip() else None


def choice(parameters: Parameters, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    value = parameters[name].strip()
    if value not in choices:
        raise UsageError(f"the parameter {name} is {value!r}: take one of {', '.join(filter(None, choices))}")
    return value


def named_frame(frames: Frames, parameters: Parameters, name: str) -> tuple[str, "DataFrame"]:
    """The source that a parameter names, by its name."""
    source = required(parameters, name, f"one of the sources {', '.join(frames)}")
    if source not in frames:
        raise UsageError(f"the parameter {name} is {source!r}, which is no source: take one of {', '.join(frames)}")
    return source, frames[source]


def only_frame(frames: Frames, parameters: Parameters) -> "DataFrame":
    """Return the source of a job that reads one; the parameter `source` chooses among several."""
    if len(frames) == 1 and not parameters.get("source"):
        return next(iter(frames.values()))
    return named_frame(frames, parameters, "source")[1]


def timed(frame: "DataFrame", parameters: Parameters) -> "DataFrame":
    """Add `event_time`, the expression in the parameter `time`, with a watermark that is `delay` behind it.

    With `lines = "combined"` the values are lines of an access log: `client`, `time`, `path`, `status` and `bytes` are
    there to be used, and lines that cannot be read are left out. An empty `delay` keeps the source's own watermark.
    """
    from pyspark.sql import functions as f

    delay = optional_duration(parameters, "delay")
    lines = choice(parameters, "lines", ("", COMBINED_LINES))
    if lines:
        from hutong.pipelines.jobs.access_log import parsed

        frame = parsed(frame).where("reason IS NULL")
    time = parameters["time"].strip() or ("time" if lines else "timestamp")
    frame = frame.withColumn(EVENT_TIME, f.expr(time).cast("timestamp"))
    return frame.withWatermark(EVENT_TIME, delay) if delay else frame
