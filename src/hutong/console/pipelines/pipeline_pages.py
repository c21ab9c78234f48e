"""The routes to pipelines.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.pipelines.pipeline_facts import PipelineFacts
    from hutong.web.requests import WebRequest

REPORT_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox; base-uri 'none'; frame-ancestors 'none'"
"""A report has texts of strangers in it, and its own style sheet: it runs nothing, and is no page of ours."""


class PipelinePages:
    """The routes of `/api/pipelines`."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/pipelines", self.list_pipelines),
            ConsoleRoute("GET", "/api/pipelines/{name}/report", self.report),
        ]

    async def list_pipelines(self, request: WebRequest) -> WebAnswer:
        """Each query of each pipeline."""
        await check_right(self._desk, request, READ_NODE)
        facts = self._desk.outer.pipelines
        rows = [] if facts is None else await self._desk.blocking(facts.rows)
        return json({"has_folder": facts is not None, "pipelines": rows})

    async def report(self, request: WebRequest) -> WebAnswer:
        """The report of a pipeline's newest run, as a page."""
        await check_right(self._desk, request, READ_NODE)
        name = request.text("name")
        page = await self._desk.blocking(lambda: self._facts().report(name))
        if page is None:
            raise WebRefusal(404, f"No run of a pipeline {name[:100]!r} is here.")
        headers = [("Content-Security-Policy", REPORT_POLICY), ("Referrer-Policy", "no-referrer")]
        return WebAnswer(200, page.encode(), "text/html; charset=utf-8", headers)

    def _facts(self) -> PipelineFacts:
        if self._desk.outer.pipelines is None:
            raise WebRefusal(404, "This console shows no pipelines: console.pipelines names no folder.")
        return self._desk.outer.pipelines
