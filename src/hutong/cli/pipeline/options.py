"""Arguments that several commands of `hutong pipeline` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from hutong.pipelines.declared.declare.definition import Pipeline

PipelineArgument = Annotated[
    str | None,
    typer.Argument(metavar="PIPELINE", show_default=False, help="Its name or file; may be left out if there is one."),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        envvar="HUTONG_PIPELINE_STATE",
        help="Where checkpoints and runs are kept; .hutong/pipelines next to the file by default.",
        show_default=False,
    ),
]
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka", metavar="NAME=VALUE", help="A property of Kafka's clients, as security.protocol; may be repeated."
    ),
]
LogOption = Annotated[
    str, typer.Option("--spark-log", metavar="LEVEL", help="Spark's own log: off, error, warn, info.")
]

MASTER_DEFAULT = "local[*]"
LOG_LEVELS = ("off", "error", "warn", "info")


def pairs_of(option: str, texts: list[str] | None) -> dict[str, str]:
    """Return the keys and values of a repeatable option such as `--conf`. Raises UsageError."""
    pairs = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise UsageError(f"{option} {key} is not of the form KEY=VALUE")  # a value may be a secret
        pairs[key] = value
    return pairs


def check_log_level(log_level: str) -> None:
    """Raises UsageError."""
    if log_level not in LOG_LEVELS:
        raise UsageError(f"--spark-log is {log_level}: take one of {', '.join(LOG_LEVELS)}")


def checked_pipeline(name: str | None, *, offline: bool = False) -> "tuple[Path, Pipeline]":
    """Return the file and the pipeline that a user names. Raises UsageError with all that keeps it from running."""
    from hutong.pipelines.declared.check.checking import read_and_check
    from hutong.pipelines.declared.check.reaching import check_topics
    from hutong.pipelines.declared.run.finding import find

    file = find(name, Path())
    pipeline, problems = read_and_check(file)
    # A file with mistakes may name the wrong brokers, so those are asked last.
    if not offline and not problems.grave:
        check_topics(pipeline, problems)
    problems.raise_grave(pipeline.name)
    return file, pipeline
