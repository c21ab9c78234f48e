"""The pipelines that a console shows: those of one state folder, from files alone.

Decides nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from hutong.cli.pipeline.showing import status_rows
from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.declare.definition import NAME
from hutong.pipelines.declared.declare.toml_text import read_toml
from hutong.pipelines.declared.run.batches import NAME_CHARACTERS_MAX, Place, ReadingBatch, ReadingBatches
from hutong.pipelines.declared.run.run_folder import PipelineFolder, document_of, pipelines_in
from hutong.pipelines.report.collect.gathering import run_of_folder
from hutong.pipelines.report.render.page import page

PROGRESS_BYTES_MAX: Final = 16 * 2**20
"""Read for one question, of all pipelines together: about a day of one that never rests."""
PIPELINES_MAX: Final = 100


class FolderPipelines:
    """`hutong.console.pipelines.pipeline_facts.PipelineFacts` of a folder such as `.hutong/pipelines`."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def rows(self) -> list[dict[str, Any]]:
        return [row for folder in pipelines_in(self._state) for row in status_rows(folder)]

    def report(self, name: str) -> str | None:
        # A name, so that it leads nowhere else.
        if not NAME.fullmatch(name) or not (self._state / name).is_dir():
            return None
        try:
            return page(run_of_folder(self._state / name))
        except UsageError:
            return None  # it has not run yet

    def batches(self, places: Collection[Place]) -> tuple[list[dict[str, Any]], bool]:
        folders = [folder for folder in pipelines_in(self._state) if NAME.fullmatch(folder.path.name)]
        shown, is_cut = folders[:PIPELINES_MAX], len(folders) > PIPELINES_MAX
        rows: list[dict[str, Any]] = []
        for folder in shown:
            found = ReadingBatches(places)
            is_cut = _look(folder, found, PROGRESS_BYTES_MAX // len(shown)) or is_cut or found.is_cut
            sinks = _sinks(folder) if found.found else {}
            rows += [_row(folder.path.name, batch, sinks.get(batch.query)) for batch in found.found]
        return rows, is_cut


def _look(folder: PipelineFolder, found: ReadingBatches, bytes_left: int) -> bool:
    """Look through the newest progress; True where older one was left out."""
    for run in reversed(folder.runs()):
        lines, is_cut = run.newest_lines(bytes_left)
        for line in filter(found.may_tell, lines):
            document = document_of(line)
            if document is not None:
                found.add(document)
        if is_cut:
            return True
        bytes_left -= sum(map(len, lines))
    return False


def _sinks(folder: PipelineFolder) -> dict[str, Mapping[str, Any]]:
    """The sinks by name, as the pipeline's file declares them now; none of a file that would have to be run."""
    last = folder.last_record()
    if last is None or not last[1].file.endswith(".toml"):
        return {}
    try:
        sinks = read_toml(Path(last[1].file)).get("sinks")
    except (OSError, ValueError):
        return {}
    named = sinks.items() if isinstance(sinks, dict) else ()
    return {name: sink for name, sink in named if isinstance(sink, dict)}


def _row(pipeline: str, batch: ReadingBatch, sink: Mapping[str, Any] | None) -> dict[str, Any]:
    read = [
        {"topic": each.place[0], "partition": each.place[1], "offset": each.place[2], "is_certain": each.is_certain}
        for each in batch.read
    ]
    row = {**asdict(batch), "read": read, "pipeline": pipeline}
    return row | {f"to_{name}": _text((sink or {}).get(name)) for name in ("topic", "path")}


def _text(value: Any) -> str | None:
    return value[:NAME_CHARACTERS_MAX] if isinstance(value, str) else None
