"""The pipelines that a console shows: those of one state folder, from files alone.

Decides nothing.
"""

from pathlib import Path
from typing import Any

from hutong.cli.pipeline.showing import status_rows
from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.declare.definition import NAME
from hutong.pipelines.declared.run.run_folder import pipelines_in
from hutong.pipelines.report.collect.gathering import run_of_folder
from hutong.pipelines.report.render.page import page


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
