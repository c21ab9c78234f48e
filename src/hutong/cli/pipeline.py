"""`hutong pipeline`: list the jobs, explain one, run one.

Spark is imported when a job runs, not before: the commands that need none work without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hutong.cli.options import AsJson, Bootstrap
from hutong.cli.output import print_json, print_rows, remark
from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hutong.pipelines.runner import Finished

app = typer.Typer(name="pipeline", help="Run data pipelines on Spark.", no_args_is_help=True)
run_app = typer.Typer(name="run", help="Run a job.", no_args_is_help=True)
app.add_typer(run_app, name="run")

TopicOption = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="Topic to read.", show_default=False)]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.", show_default=False)
]
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]
LogOption = Annotated[
    str, typer.Option("--spark-log", metavar="LEVEL", help="Spark's own log: off, error, warn, info.")
]

MASTER_DEFAULT = "local[*]"
LOG_LEVELS = ("off", "error", "warn", "info")


@app.command("list", help="List the jobs.")
def list_jobs(as_json: AsJson = False) -> None:
    from hutong.pipelines.jobs import JOBS

    rows = [{"name": job.name, "kind": job.kind, "summary": job.summary} for job in JOBS.values()]
    print_rows(rows, ("name", "kind", "summary"), as_json=as_json)


@app.command(help="Tell what a job reads and writes, and show how Spark computes it, on a built-in sample.")
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    spark_log: LogOption = "off",
) -> None:
    from hutong.pipelines import runner
    from hutong.pipelines.jobs import JOBS

    if name not in JOBS:
        raise UsageError(f"there is no job {name}: take one of {', '.join(JOBS)}")
    job = JOBS[name]
    outputs = "\n".join(f"  {output}: {content}" for output, content in job.outputs)
    typer.echo(f"{job.name} ({job.kind})\n{job.summary}\n\nReads {job.reads}.\nWrites\n{outputs}\n")
    with _session(f"hutong explain {name}", master, conf, spark_log, quick=True) as session:
        explained = runner.explain_pagerank(session) if name == "pagerank" else runner.explain_access_log(session)
    typer.echo(explained)


@run_app.command("access-log", help="Requests, bytes and status classes per hour, and the most wanted paths.")
def access_log(
    topic: TopicOption,
    output: OutputOption,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    once: Annotated[bool, typer.Option("--once", help="Read all that is there, then end.")] = False,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    spark_log: LogOption = "off",
    as_json: AsJson = False,
) -> None:
    from hutong.foundation.clock import SystemClock
    from hutong.pipelines import runner
    from hutong.pipelines.engine.progress import live_line
    from hutong.pipelines.results import prepare_folder

    source = runner.check_input(bootstrap, topic)
    prepare_folder(output)
    quick = once and source.is_small
    with (
        live_line("starting Spark") as show,
        _session("hutong access-log", master, conf, spark_log, quick=quick) as session,
    ):
        show(f"reading {topic}")
        finished = runner.run_access_log(session, source, output, once, show, SystemClock())
    _report(finished, as_json)


@run_app.command("pagerank", help="Ranks of pages by the links between them.")
def pagerank(
    topic: TopicOption,
    output: OutputOption,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    iterations: Annotated[int, typer.Option("--iterations", "-i", min=1, help="How often ranks are passed on.")] = 10,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    spark_log: LogOption = "off",
    as_json: AsJson = False,
) -> None:
    from hutong.foundation.clock import SystemClock
    from hutong.pipelines import runner
    from hutong.pipelines.engine.progress import live_line
    from hutong.pipelines.results import prepare_folder

    source = runner.check_input(bootstrap, topic)
    prepare_folder(output)
    with (
        live_line("starting Spark") as show,
        _session("hutong pagerank", master, conf, spark_log, quick=source.is_small) as session,
    ):
        show(f"reading {topic}")
        finished = runner.run_pagerank(session, source, output, iterations, show, SystemClock())
    _report(finished, as_json)


@contextmanager
def _session(
    name: str, master: str, conf: list[str] | None, log_level: str, *, quick: bool
) -> Iterator["SparkSession"]:
    from hutong.pipelines.engine.session import spark_session

    if log_level not in LOG_LEVELS:
        raise UsageError(f"--spark-log is {log_level}: take one of {', '.join(LOG_LEVELS)}")
    settings = dict(_setting(text) for text in conf or ())
    with spark_session(name, master, settings, log_level, quick=quick) as session:
        yield session


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise UsageError(f"--conf {text} is not of the form KEY=VALUE")
    return key, value


def _report(finished: "Finished", as_json: bool) -> None:
    files = [str(path) for path in finished.files]
    if as_json:
        print_json({"records": finished.record_count, "seconds": round(finished.seconds, 3), "files": files})
        return
    if finished.notes:
        typer.echo(f"{finished.notes}\n")
    remark(f"{finished.record_count:,} records in {finished.seconds:.1f} s")
    for path in files:
        typer.echo(path)
