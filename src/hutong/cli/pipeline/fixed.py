"""`hutong pipeline run access-log | pagerank`: the two jobs that need no file, and what `explain` shows of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hutong.cli.options import AsJson, Bootstrap, topic_name
from hutong.cli.output import print_json, remark
from hutong.cli.pipeline.options import (
    MASTER_DEFAULT,
    ConfOption,
    KafkaOption,
    LogOption,
    MasterOption,
    check_log_level,
    pairs_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hutong.pipelines.engine.progress import Show
    from hutong.pipelines.runner import Finished

TopicOption = Annotated[
    str, typer.Option("--topic", "-t", metavar="TOPIC", parser=topic_name, help="Topic to read.", show_default=False)
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.", show_default=False)
]
FIXED = ("access-log", "pagerank")


def access_log(
    topic: TopicOption,
    output: OutputOption,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    once: Annotated[bool, typer.Option("--once", help="Read all that is there, then end.")] = False,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    kafka: KafkaOption = None,
    spark_log: LogOption = "off",
    as_json: AsJson = False,
) -> None:
    from hutong.foundation.clock import SystemClock
    from hutong.pipelines.runner import check_input, run_access_log

    source = check_input(bootstrap, topic, pairs_of("--kafka", kafka))
    quick = once and source.is_small
    with _live_session("hutong access-log", topic, output, master, conf, spark_log, quick=quick) as (session, show):
        finished = run_access_log(session, source, output, once, show, SystemClock())
    _report(finished, as_json)


def pagerank(
    topic: TopicOption,
    output: OutputOption,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    iterations: Annotated[int, typer.Option("--iterations", "-i", min=1, help="How often ranks are passed on.")] = 10,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    kafka: KafkaOption = None,
    spark_log: LogOption = "off",
    as_json: AsJson = False,
) -> None:
    from hutong.foundation.clock import SystemClock
    from hutong.pipelines.runner import check_input, run_pagerank

    source = check_input(bootstrap, topic, pairs_of("--kafka", kafka))
    quick = source.is_small
    with _live_session("hutong pagerank", topic, output, master, conf, spark_log, quick=quick) as (session, show):
        finished = run_pagerank(session, source, output, iterations, show, SystemClock())
    _report(finished, as_json)


def explain_fixed(name: str, master: str, conf: list[str] | None, spark_log: str) -> None:
    """Print what a job reads and writes, and how Spark computes it, on a built-in sample."""
    from hutong.pipelines import runner

    with _session(f"hutong explain {name}", master, conf, spark_log, quick=True) as session:
        explained = runner.explain_pagerank(session) if name == "pagerank" else runner.explain_access_log(session)
    typer.echo(explained)


@contextmanager
def _live_session(
    name: str, topic: str, output: Path, master: str, conf: list[str] | None, spark_log: str, *, quick: bool
) -> Iterator[tuple["SparkSession", "Show"]]:
    """Prepare the folder and start Spark, with a live line until the end of the block."""
    from hutong.pipelines.engine.progress import live_line
    from hutong.pipelines.results import prepare_folder

    prepare_folder(output)
    with live_line("starting Spark") as show, _session(name, master, conf, spark_log, quick=quick) as session:
        show(f"reading {topic}")
        yield session, show


@contextmanager
def _session(
    name: str, master: str, conf: list[str] | None, log_level: str, *, quick: bool
) -> Iterator["SparkSession"]:
    from hutong.pipelines.engine.session import spark_session

    check_log_level(log_level)
    with spark_session(name, master, pairs_of("--conf", conf), log_level, quick=quick) as session:
        yield session


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
