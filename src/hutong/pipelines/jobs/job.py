"""The description of a library job, without importing Spark, so that listing jobs works everywhere.

The module `hutong.pipelines.jobs.NAME` holds the constant `JOB` and one of two functions, which import Spark inside:

- `transform(frames, parameters)`, the usual form: gets the sources by name and all parameters as text, returns a
  DataFrame or several by name. A declared pipeline reads and writes around it, so it serves streams and batches.
- `run(work)`, for more than a transformation (several steps, files): gets a `Work`, writes its results itself
  and may return a text for the user.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hutong.pipelines.declared.declare.definition import Pipeline

PIPELINE = """\
[pipeline]
name = "@NAME@"
bootstrap = "@BOOTSTRAP@"
"""


@dataclass(frozen=True, slots=True)
class JobParameter:
    """A parameter for `[transform] parameters`. One without a default must be set."""

    name: str
    default: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job's description for users."""

    name: str
    kind: str
    """Such as `streaming, SQL`."""
    summary: str
    reads: str
    outputs: tuple[tuple[str, str], ...]
    """Its outputs: a DataFrame's, file's or topic's name, and its content."""
    parameters: tuple[JobParameter, ...] = ()
    template: str | None = None
    """The TOML that `hutong pipeline init --job` writes, with marks for what the user chooses; see `filled`.

    None for a job that is not for declared pipelines.
    """
    module: str | None = None
    """The module of its function; by default `hutong.pipelines.jobs.NAME`, with underscores for dashes."""

    @property
    def module_name(self) -> str:
        return self.module or f"{__package__}.{self.name.replace('-', '_')}"

    def with_defaults(self, given: Mapping[str, str]) -> dict[str, str]:
        """All parameters, those not given at their defaults."""
        defaults = {one.name: one.default for one in self.parameters if one.default is not None}
        return {**defaults, **given}


@dataclass(frozen=True, slots=True)
class Work:
    """The argument of a job's `run`."""

    session: "SparkSession"
    frames: Mapping[str, "DataFrame"]
    """The sources by name; streams, unless the pipeline's trigger is `batch` or the source is static."""
    parameters: Mapping[str, str]
    """All of them, defaults filled in."""
    pipeline: "Pipeline"
    checkpoint: Path
    """A folder that outlives the run, for checkpoints."""
    stop: threading.Event
    """Set when the user asks for the end: finish the batch, then return."""
    show: Callable[[str], None]
    """Replaces the live line."""


def filled(template: str, name: str, bootstrap: str) -> str:
    """Replace the marks of a template: `@PIPELINE@` by the head of its table, then `@NAME@` and `@BOOTSTRAP@`."""
    return template.replace("@PIPELINE@\n", PIPELINE).replace("@NAME@", name).replace("@BOOTSTRAP@", bootstrap)
