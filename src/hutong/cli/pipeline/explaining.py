"""`hutong pipeline explain`: what a job or a pipeline reads, computes and writes, as Spark sees it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hutong.cli.pipeline.fixed import FIXED, explain_fixed
from hutong.cli.pipeline.options import (
    MASTER_DEFAULT,
    ConfOption,
    LogOption,
    MasterOption,
    PipelineArgument,
    check_log_level,
    checked_pipeline,
    pairs_of,
)
from hutong.foundation.errors import ExitCode, PeerError, UsageError

if TYPE_CHECKING:
    from hutong.pipelines.jobs.job import Job

REQUIRED = "must be set"


def explain(
    name: PipelineArgument = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the stages into this file.", show_default=False)
    ] = None,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    spark_log: LogOption = "off",
) -> None:
    """Show what a pipeline or a job of the library reads and writes, and how Spark computes it.

    A pipeline is computed once over its topics' first records; nothing is written.
    """
    from hutong.pipelines.jobs import JOBS

    if name in JOBS and not Path(name).exists():
        if svg is not None:
            raise UsageError("--svg draws the stages of a pipeline: name one, or make one with hutong pipeline init")
        _explain_job(JOBS[name], master, conf, spark_log)
        return
    _explain_pipeline(name, svg, master, conf, spark_log)


def _explain_job(job: "Job", master: str, conf: list[str] | None, spark_log: str) -> None:
    from hutong.pipelines.jobs.job import filled

    outputs = "\n".join(f"  {output}: {content}" for output, content in job.outputs)
    typer.echo(f"{job.name} ({job.kind})\n{job.summary}\n\nReads {job.reads}.\nMakes\n{outputs}\n")
    if job.parameters:
        parameters = (
            f"  {one.name} ({REQUIRED if one.default is None else one.default}): {one.help}" for one in job.parameters
        )
        typer.echo("Parameters\n" + "\n".join(parameters) + "\n")
    if job.name in FIXED:
        explain_fixed(job.name, master, conf, spark_log)
    if job.template is not None:
        text = filled(job.template, f"my-{job.name}", "127.0.0.1:9092")
        typer.echo(f"hutong pipeline init my-{job.name} --job {job.name} writes\n\n{text}")


def _explain_pipeline(name: str | None, svg: Path | None, master: str, conf: list[str] | None, log_level: str) -> None:
    from hutong.pipelines.declared.parts.explaining import SETTINGS
    from hutong.pipelines.declared.parts.explaining import explain as explain_on
    from hutong.pipelines.engine.failures import plain_errors
    from hutong.pipelines.engine.masters import is_connect
    from hutong.pipelines.engine.progress import live_line
    from hutong.pipelines.engine.session import spark_session
    from hutong.pipelines.report.render.dag import stage_dag_svg

    check_log_level(log_level)
    if is_connect(master):
        raise UsageError("explain looks into Spark's own process: leave out --master sc://...")
    _file, pipeline = checked_pipeline(name)
    settings = {**SETTINGS, **pipeline.spark, **pairs_of("--conf", conf)}
    with (
        live_line("starting Spark"),
        spark_session(f"hutong explain {pipeline.name}", master, settings, log_level, quick=True) as session,
        plain_errors(),
    ):
        try:
            explained = explain_on(session, pipeline)
        except PeerError as error:
            raise UsageError(str(error), ExitCode.UNAVAILABLE) from error
    typer.echo(explained.text)
    if svg is not None:
        try:
            svg.write_text(stage_dag_svg(explained.stages), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{svg} cannot be written: {error.strerror}", ExitCode.CANTCREAT) from error
