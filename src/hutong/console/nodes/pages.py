"""The routes of nodes: brokers and partitions by Kafka's protocol, elections, and the figures of the node itself.

Decides nothing about figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hutong.console.nodes.asking import ask_cluster, ask_partitions, elect_preferred
from hutong.console.nodes.cluster import NAMES_MAX
from hutong.console.nodes.own_figures import identity, own_figures
from hutong.console.nodes.sampler import INTERVAL_MS
from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.web.answers import StreamedAnswer, WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.console.desk import ConsoleDesk
    from hutong.console.nodes.sampler import NodeSampler
    from hutong.web.requests import WebRequest

ALL = "all topics"


class ElectBody(msgspec.Struct, frozen=True):
    """`topic` is None for all."""

    topic: str | None = None


class NodesPages:
    """`sampler` is None where there is no node whose figures could be shown."""

    def __init__(self, desk: ConsoleDesk, sampler: NodeSampler | None) -> None:
        self._desk = desk
        self._sampler = sampler

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/nodes", self.show),
            ConsoleRoute("GET", "/api/nodes/partitions", self.partitions),
            ConsoleRoute("POST", "/api/nodes/elect", self.elect, changes="leaders.elect"),
            ConsoleRoute("GET", "/api/nodes/own", self.own),
            ConsoleRoute("GET", "/api/nodes/own/events", self.own_events),
        ]

    async def show(self, request: WebRequest) -> WebAnswer:
        """All brokers, and the partitions that lack something."""
        cluster = await ask_cluster(self._desk, await self._desk.account(request))
        problems = cluster.problems()
        lacking = len({*cluster.leaderless, *cluster.under_replicated})
        shown = {
            **cluster.summary(),
            "brokers": cluster.told_brokers(),
            "topic_names": cluster.topics[:NAMES_MAX],
            "problems": problems,
            "truncated": lacking > len(problems),
        }
        return json(shown)

    async def partitions(self, request: WebRequest) -> WebAnswer:
        """The places of a topic's replicas. Raises WebRefusal: 400, 404."""
        topic = request.query.get("topic", "")
        if not topic:
            raise WebRefusal(400, "Name a topic: ?topic=NAME.")
        found = await ask_partitions(self._desk, await self._desk.account(request), topic)
        return json({"topic": topic, "partitions": [one.told() for one in found]})

    async def elect(self, request: WebRequest) -> WebAnswer:
        """Let the preferred leaders lead, of one topic or of all."""
        desk, topic = self._desk, request.json(ElectBody).topic
        account = await desk.account(request)
        before = [one.told() for one in (await ask_cluster(desk, account)).not_preferred if topic in (None, one.topic)]
        outcome = await elect_preferred(desk, account, [(one["topic"], one["partition"]) for one in before])
        await desk.record(request, "leaders.elect", topic or ALL, before, outcome)
        return json(outcome)

    async def own(self, request: WebRequest) -> WebAnswer:
        """The node's version and the like, and the addresses where it listens. Raises WebRefusal(403, 404)."""
        sampler = await self._seen(request)
        assert self._desk.node is not None
        sample = (await sampler.look(is_full=True)).newest
        assert sample is not None
        shown = {
            **identity(sample),
            "started_ms": (sample.value("process_start_time_seconds") or 0.0) * 1_000,
            "listeners": self._desk.node.listeners(),
            "open_files": sample.value("process_open_fds"),
            "open_files_max": sample.value("process_max_fds"),
        }
        return json(shown)

    async def own_events(self, request: WebRequest) -> StreamedAnswer:
        """An event `figures` for each new sample, as long as the session lasts. Raises WebRefusal(403, 404)."""
        rounds = _OwnRounds(self._desk, await self._seen(request), request)
        return streamed(Rounds(rounds.make, self._desk.pause, INTERVAL_MS))

    async def _seen(self, request: WebRequest) -> NodeSampler:
        if self._sampler is None:
            raise WebRefusal(404, "This console looks at a cluster from outside, and has no figures of a node.")
        await check_right(self._desk, request, READ_NODE)
        return self._sampler


class _OwnRounds:
    """The rounds of one browser."""

    def __init__(self, desk: ConsoleDesk, sampler: NodeSampler, request: WebRequest) -> None:
        self._desk = desk
        self._sampler = sampler
        self._request = request
        self._shown_ms: int | None = None

    async def make(self) -> Iterable[bytes]:
        self._desk.session(self._request)  # once it has ended, the stream ends
        history = await self._sampler.look(is_full=True)
        newest: Any = history.newest
        if newest.at_ms == self._shown_ms:
            return ()
        self._shown_ms = newest.at_ms
        return (event("figures", own_figures(history)),)
