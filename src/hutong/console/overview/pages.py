"""The routes of the overview: the cluster by Kafka's metadata, and the figures of the node itself as a stream.

Decides nothing about figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hutong.console.nodes.asking import ask_cluster
from hutong.console.nodes.sampler import INTERVAL_MS
from hutong.console.overview.cluster_findings import UNSEEN, cluster_findings
from hutong.console.overview.figures import Points, busiest_topics, figures, latest_groups
from hutong.console.overview.findings import FoundProblems, health
from hutong.console.overview.rules import RULES
from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.web.answers import StreamedAnswer, WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.console.desk import ConsoleDesk
    from hutong.console.nodes.sampler import NodeSampler
    from hutong.web.requests import WebRequest


class OverviewPages:
    """`sampler` is None where there is no node whose figures could be shown."""

    def __init__(self, desk: ConsoleDesk, sampler: NodeSampler | None) -> None:
        self._desk = desk
        self._sampler = sampler
        self._points = Points()
        self._findings = FoundProblems(RULES)
        if sampler is not None:
            sampler.observers += [self._points.observe, self._findings.observe]

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/overview", self.show),
            ConsoleRoute("GET", "/api/overview/events", self.stream),
        ]

    async def show(self, request: WebRequest) -> WebAnswer:
        """The cluster by Kafka's metadata, and if there is a stream with more."""
        desk = self._desk
        may_see = await self._may_see_node(request)
        cluster = await ask_cluster(desk, await desk.account(request))
        found = cluster_findings(cluster, with_partitions=not may_see)
        tone, sentence = health(found, ())
        shown = {
            "cluster": cluster.summary(),
            "has_node": desk.node is not None,
            "may_see_node": may_see,
            "health": {"tone": tone, "sentence": sentence},
            "findings": found,
            "unseen": () if may_see else UNSEEN,
        }
        return json(shown)

    async def stream(self, request: WebRequest) -> StreamedAnswer:
        """Events `history` once, then `figures`, for as long as the session. Raises WebRefusal(403, 404)."""
        sampler = self._sampler
        if sampler is None:
            raise WebRefusal(404, "This console looks at a cluster from outside, and has no figures of a node.")
        await check_right(self._desk, request, READ_NODE)
        rounds = _OverviewRounds(self, sampler, request)
        return streamed(Rounds(rounds.make, self._desk.pause, INTERVAL_MS))

    def history(self) -> dict[str, Any]:
        return {"points": list(self._points.points)}

    def figures(self, sampler: NodeSampler) -> dict[str, Any]:
        assert self._desk.node is not None
        history = sampler.history
        newest = history.newest
        assert newest is not None
        found = self._findings.found
        tone, sentence = health(found, self._desk.node.health_reasons())
        return {
            "at_ms": newest.wall_ms,
            "health": {"tone": tone, "sentence": sentence},
            "findings": found,
            "rules": len(RULES),
            "figures": figures(history),
            "topics": busiest_topics(history),
            "groups": latest_groups(history),
            "point": self._points.points[-1] if self._points.points else None,
        }

    async def _may_see_node(self, request: WebRequest) -> bool:
        if self._sampler is None:
            return False
        try:
            await check_right(self._desk, request, READ_NODE)
        except WebRefusal as refusal:
            if refusal.status != 403:
                raise
            return False
        return True

    def check_session(self, request: WebRequest) -> None:
        """Raises WebRefusal(401) once the session has ended, which ends the stream."""
        self._desk.session(request)


class _OverviewRounds:
    """The rounds of one browser."""

    def __init__(self, pages: OverviewPages, sampler: NodeSampler, request: WebRequest) -> None:
        self._pages = pages
        self._sampler = sampler
        self._request = request
        self._shown_ms: int | None = None

    async def make(self) -> Iterable[bytes]:
        self._pages.check_session(self._request)
        newest = (await self._sampler.look()).newest
        assert newest is not None
        if newest.at_ms == self._shown_ms:
            return ()
        first = () if self._shown_ms is not None else (event("history", self._pages.history()),)
        self._shown_ms = newest.at_ms
        return (*first, event("figures", self._pages.figures(self._sampler)))
