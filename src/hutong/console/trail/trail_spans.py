"""The route of a trace's spans: what the node itself did with a record's messages and calls.

Decides nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hutong.console.limits import TRAIL_SPANS_MAX
from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.answers import WebAnswer
    from hutong.web.requests import WebRequest

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class TrailSpans:
    """The route of `/api/trail/spans`."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        return [ConsoleRoute("GET", "/api/trail/spans", self.list_spans)]

    async def list_spans(self, request: WebRequest) -> WebAnswer:
        """The spans of one trace that the node of this console keeps."""
        await check_right(self._desk, request, READ_NODE)
        trace = request.query.get("trace", "")
        if not _TRACE_ID.fullmatch(trace):
            raise WebRefusal(400, "A trace's id has 32 digits in hex.")
        node = self._desk.node
        found = None if node is None else node.spans(int(trace, 16), TRAIL_SPANS_MAX)
        spans, is_cut = ([], False) if found is None else found
        return json({"is_traced": found is not None, "spans": spans, "truncated": is_cut})
