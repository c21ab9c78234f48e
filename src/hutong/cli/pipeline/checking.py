"""`hutong pipeline init` and `validate`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from hutong.cli.options import AsDocument, Bootstrap, topic_name
from hutong.cli.output import print_json, remark
from hutong.cli.pipeline.options import PipelineArgument
from hutong.foundation.errors import ExitCode, UsageError


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What to call the pipeline.")],
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="Use a job of the library.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="TOPIC", parser=topic_name, help="Topic to read.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    python: Annotated[bool, typer.Option("--python", help="Declare it in Python instead of TOML.")] = False,
) -> None:
    """Write the file of a new pipeline into this folder, ready to be changed."""
    from hutong.pipelines.declared.declare.templates import write_template

    file, needs_topic = write_template(name, Path(), job=job, topic=topic, bootstrap=bootstrap, python=python)
    typer.echo(file.name)
    first = f"write your topics into {file.name}, then check it" if needs_topic else "check it"
    remark(f"next: {first} with hutong pipeline validate {name}")


def validate(
    name: PipelineArgument = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the brokers for the topics.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark to check columns and SQL.")] = False,
    as_json: AsDocument = False,
) -> int:
    """Tell all that is wrong with a pipeline, without running it.

    First the file, then whether the topics exist, then, with Spark, columns and SQL: a few seconds.
    """
    from hutong.pipelines.declared.check.checking import read_and_check
    from hutong.pipelines.declared.check.reaching import check_topics
    from hutong.pipelines.declared.run.finding import find

    file = find(name, Path())
    pipeline, problems = read_and_check(file)
    done = ["file"]
    is_sound = not problems.grave  # Spark cannot plan what the file does not describe
    if not offline:
        check_topics(pipeline, problems)
        done.append("topics")
    if not quick and is_sound and _has_spark():
        from hutong.pipelines.declared.parts.analysing import MASTER, QUIET_SETTINGS, analyse
        from hutong.pipelines.engine.progress import live_line
        from hutong.pipelines.engine.session import spark_session

        settings = {**QUIET_SETTINGS, **pipeline.spark}
        with live_line("checking columns and SQL"), spark_session("hutong", MASTER, settings, quick=True) as session:
            analyse(session, pipeline, problems)
        done.append("columns and SQL")
    if as_json:
        found = [{"where": one.where, "what": one.what, "mild": one.mild} for one in problems.found]
        print_json({"pipeline": pipeline.name, "valid": not problems.grave, "checked": done, "problems": found})
        return ExitCode.CONFIG if problems.grave else 0
    for problem in problems.found:
        typer.echo(f"{'note: ' if problem.mild else ''}{problem}")
    if problems.grave:
        count = len(problems.grave)
        raise UsageError(f"{file.name} has {count} problem{'s' if count > 1 else ''}", ExitCode.CONFIG)
    remark(f"pipeline {pipeline.name} is fine; checked: {', '.join(done)}")
    return 0


def _has_spark() -> bool:
    if find_spec("pyspark") is not None:
        return True
    remark("columns and SQL are not checked: that needs Spark, install hutong[spark]")
    return False
