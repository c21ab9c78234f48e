"""`hutong pipeline report`: one HTML page about a run, from what it left behind or from a driver that is at work."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hutong.cli.options import AsJson
from hutong.cli.output import print_json, remark
from hutong.cli.pipeline.options import StateOption
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.pipelines.report.model import SparkRun

OUTPUT_DEFAULT = Path("report.html")


def report(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[PIPELINE]",
            show_default=False,
            help="Its name or file, or a folder of a pipeline or of a run; may be left out if one has run here.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = (
        OUTPUT_DEFAULT
    ),
    run_id: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", show_default=False, help="A run; the newest unless told."),
    ] = None,
    event_log: Annotated[
        Path | None,
        typer.Option("--event-log", metavar="PATH", show_default=False, help="Any event log of Spark, instead."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", show_default=False, help="The web page of a driver at work, instead."),
    ] = None,
    state: StateOption = None,
    as_json: AsJson = False,
) -> None:
    """Write an HTML page about a run: throughput, batches, lag, stages and what they wait for, failures."""
    from hutong.pipelines.report.render.page import page, state_of

    run = _run(name, run_id, event_log, url, state)
    try:
        output.write_text(page(run), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}", ExitCode.CANTCREAT) from error
    if as_json:
        batches = sum(len(query.batches) for query in run.queries.values())
        document: dict[str, Any] = {
            "file": str(output),
            "name": run.name,
            "run": run.run_id or None,
            "state": state_of(run),
        }
        document |= {"queries": len(run.queries), "batches": batches, "stages": len(run.stages)}
        print_json({**document, "failures": len(run.failures), "notes": run.notes})
        return
    for note in run.notes:
        remark(note)
    typer.echo(output)


def _run(
    name: str | None, run_id: str | None, event_log: Path | None, url: str | None, state: Path | None
) -> "SparkRun":
    from hutong.pipelines.report.collect.gathering import run_of_folder, run_of_log

    if sum(given is not None for given in (name, event_log, url)) > 1:
        raise UsageError("give one of a pipeline, --event-log and --url")
    if run_id is not None and (event_log is not None or url is not None):
        raise UsageError("--run chooses among the runs of a pipeline: leave out --event-log and --url")
    if event_log is not None:
        return run_of_log(event_log)
    if url is not None:
        from hutong.pipelines.report.collect.live import run_of_driver

        return run_of_driver(url)
    return run_of_folder(_folder(name, state), run_id)


def _folder(name: str | None, state: Path | None) -> Path:
    """A folder that is given itself, else the one of the pipeline that is named, else of the only one that ran here."""
    from hutong.cli.pipeline.showing import folder_named
    from hutong.pipelines.declared.run.run_folder import pipelines_in, state_folder

    if name is not None:
        return Path(name) if Path(name).is_dir() else folder_named(name, state).path
    ran = pipelines_in(state_folder(state, Path()))
    if len(ran) > 1:
        names = ", ".join(folder.path.name for folder in ran)
        raise UsageError(f"several pipelines have run here, name one of {names}", ExitCode.NOINPUT)
    if not ran:
        others = "name a folder, an event log with --event-log, or a driver at work with --url"
        raise UsageError(f"no pipeline has run here: {others}", ExitCode.NOINPUT)
    return ran[0].path
