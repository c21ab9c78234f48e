"""`hutong pipeline explain`: what a job or a pipeline reads, computes and writes, as Spark sees it."""

from typing import Annotated

import typer

from hutong.cli.pipeline.fixed import FIXED, explain_fixed
from hutong.cli.pipeline.options import MASTER_DEFAULT, ConfOption, LogOption, MasterOption
from hutong.foundation.errors import UsageError


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    spark_log: LogOption = "off",
) -> None:
    """Tell what a job reads and writes, and show how Spark computes it."""
    from hutong.pipelines.jobs import JOBS

    if name not in JOBS:
        raise UsageError(f"there is no job {name}: take one of {', '.join(JOBS)}")
    job = JOBS[name]
    outputs = "\n".join(f"  {output}: {content}" for output, content in job.outputs)
    typer.echo(f"{job.name} ({job.kind})\n{job.summary}\n\nReads {job.reads}.\nWrites\n{outputs}\n")
    if name in FIXED:
        explain_fixed(name, master, conf, spark_log)
