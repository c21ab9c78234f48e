"""`hutong pipeline list` and `status`: what there is, and how it does, from files alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hutong.cli.options import AsJson
from hutong.cli.output import print_rows, utc
from hutong.cli.pipeline.options import PipelineArgument, StateOption
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.pipelines.declared.run.run_folder import PipelineFolder

NEVER = "never run"
DIED = "died"
"""The state of a run whose process is gone without a last record."""
MISNAMED = "not a valid name"
LIST_COLUMNS = ("name", "kind", "state", "summary")
STATUS_COLUMNS = ("name", "state", "since", "query", "batch", "rows_per_second", "batch_ms", "lag", "attempt", "error")


def list_all(state: StateOption = None, as_json: AsJson = False) -> None:
    """List the library's jobs and the pipelines of this folder."""
    from hutong.pipelines.declared.declare.definition import NAME
    from hutong.pipelines.declared.run.finding import folder_of, pipelines_in
    from hutong.pipelines.jobs import JOBS

    rows: list[dict[str, Any]] = [
        {"name": job.name, "kind": f"job: {job.kind}", "state": None, "summary": job.summary} for job in JOBS.values()
    ]
    for found in pipelines_in(Path()):
        now = state_of(folder_of(found.file, found.name, state)) if NAME.fullmatch(found.name) else MISNAMED
        rows.append({"name": found.name, "kind": "pipeline", "state": now, "summary": found.file.name})
    print_rows(rows, LIST_COLUMNS, as_json=as_json)


def status(name: PipelineArgument = None, state: StateOption = None, as_json: AsJson = False) -> None:
    """Tell how pipelines do: state, last batch, rows per second, and how many records each source is behind."""
    folders = [folder_named(name, state)] if name is not None else _folders(state)
    if not folders:
        raise UsageError("no pipeline has run here: start one with hutong pipeline run", ExitCode.NOINPUT)
    rows = [row for folder in folders for row in status_rows(folder)]
    if not as_json:
        rows = [row | {"lag": _lag_text(row["lag"])} for row in rows]
    columns = STATUS_COLUMNS if as_json or any(row["error"] for row in rows) else STATUS_COLUMNS[:-1]
    print_rows(rows, columns, as_json=as_json)


def state_of(folder: "PipelineFolder") -> str:
    """The state of a pipeline, in a word."""
    from hutong.pipelines.declared.run.run_folder import ENDED, FAILED, STARTING

    last = folder.last_record()
    is_running = folder.supervisor_pid is not None
    if last is None:
        return STARTING if is_running else NEVER
    state = last[1].state
    if is_running:
        return "restarting" if state == FAILED else state if state not in ENDED else STARTING
    return state if state in ENDED else DIED


def folder_named(name: str | None, state: Path | None) -> "PipelineFolder":
    """The folder of a pipeline that the user names, by file or by name; its file may be gone."""
    from hutong.pipelines.declared.declare.definition import NAME
    from hutong.pipelines.declared.declare.reading import read_pipeline
    from hutong.pipelines.declared.run.finding import find, folder_of
    from hutong.pipelines.declared.run.run_folder import PipelineFolder, state_folder

    if name is not None and NAME.fullmatch(name):
        known = PipelineFolder(state_folder(state, Path()) / name)
        if (known.path / "runs").is_dir():
            return known
    file = find(name, Path())
    return folder_of(file, read_pipeline(file)[0].name, state)


def _folders(state: Path | None) -> "list[PipelineFolder]":
    from hutong.pipelines.declared.run.run_folder import pipelines_in, state_folder

    return pipelines_in(state_folder(state, Path()))


def status_rows(folder: "PipelineFolder") -> list[dict[str, Any]]:
    """A row per query; one without figures where nothing has been done yet."""
    from hutong.pipelines.declared.run.figures import figures

    row: dict[str, Any] = dict.fromkeys(STATUS_COLUMNS)
    row |= {"name": folder.path.name, "state": state_of(folder)}
    last = folder.last_record()
    if last is None:
        return [row]
    record = last[1]
    row |= {"since": utc(record.ended_ms or record.started_ms), "attempt": record.attempt, "error": record.error}
    shown = [
        row
        | {
            "query": one.query,
            "batch": one.batch,
            "rows_per_second": round(one.rows_per_second, 1),
            "batch_ms": one.batch_ms,
            "lag": dict(one.lag),
        }
        for one in figures(_last_progress(folder))
    ]
    return shown or [row]


def _last_progress(folder: "PipelineFolder") -> "list[Mapping[str, Any]]":
    """Of the newest run that has any: a run that finds nothing new reports nothing."""
    for run in reversed(folder.runs()):
        documents = run.last_progress()
        if documents:
            return documents
    return []


def _lag_text(lag: dict[str, int] | None) -> str | None:
    if lag is None:
        return None
    return ", ".join(f"{topic} {count:,}" for topic, count in lag.items()) or "-"
