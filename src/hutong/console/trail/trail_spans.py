"""The routes of a trace's spans: what nodes did with a record's messages and calls.

Decides nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hutong.console.limits import TRAIL_TRACES_MAX
from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, streamed
from hutong.console.trail.other_spans import OtherSpans
from hutong.web.answers import WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.answers import StreamedAnswer, WebAnswer
    from hutong.web.requests import WebRequest

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class TrailSpans:
    """The routes below `/api/trail/spans`."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/trail/spans", self.list_spans),
            ConsoleRoute("GET", "/api/trail/spans/others", self.stream_others),
        ]

    async def list_spans(self, request: WebRequest) -> WebAnswer:
        """The spans of one trace that the node of this console keeps, its number, and those of the other nodes."""
        await check_right(self._desk, request, READ_NODE)
        trace = _checked(request.query.get("trace", ""))
        node = self._desk.node
        found = None if node is None else node.spans([trace])
        spans, is_cut = ([], False) if found is None else found
        about = {"node": None, "others": []} if node is None else {"node": node.number(), "others": node.other_nodes()}
        return json({**about, "is_traced": found is not None, "spans": spans, "truncated": is_cut})

    async def stream_others(self, request: WebRequest) -> StreamedAnswer:
        """Stream the spans of some traces that the other nodes keep: an event for each node, and `end`."""
        await check_right(self._desk, request, READ_NODE)
        traces = [_checked(each) for each in request.query.get("traces", "").split(",", TRAIL_TRACES_MAX - 1)]
        if self._desk.node is None:
            raise WebRefusal(404, "This console belongs to no node.")
        others = OtherSpans(self._desk.node, traces)
        return streamed(Rounds(others.step, self._desk.pause, 0, others.close))


def _checked(trace: str) -> str:
    if not _TRACE_ID.fullmatch(trace):
        raise WebRefusal(400, f"A trace's id has 32 digits in hex, and there are at most {TRAIL_TRACES_MAX}.")
    return trace
