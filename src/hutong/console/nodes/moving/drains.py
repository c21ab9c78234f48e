"""The routes that drain a node: its replicas or its leaderships go elsewhere, after a preview.

    Hutong, replicas          the controller's command: the node leads nothing, and stays drained until `undrain`
    Hutong, leaderships       each group that the node should lead prefers another replica
    Apache Kafka, replicas    a reassignment of each of its partitions; Kafka goes on placing new ones there
    Apache Kafka, leaderships the same replicas in another order, and an election

Decides nothing about places: `plan` and Hutong's controller do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hutong.cluster.controller.commands import ControllerStatus, DrainNode, ElectPreferred, UndrainNode
from hutong.console.nodes.asking import ask_cluster, elect_preferred
from hutong.console.nodes.moving import asking
from hutong.console.nodes.moving.access import check_mark
from hutong.console.nodes.moving.plan import CONFLICT, MovePlan, plan_drain, plan_leaders
from hutong.console.routes import ConsoleRoute
from hutong.foundation.errors import Refused
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.nodes.cluster import SeenCluster
    from hutong.console.nodes.moving.access import MoveAccess
    from hutong.console.nodes.moving.operators import OperatorConnection
    from hutong.console.nodes.moving.units import MoveUnit
    from hutong.web.requests import WebRequest


class DrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mark` is that of the preview."""

    what: Literal["replicas", "leaders"] = "replicas"
    mark: str = ""


class DrainPages:
    """The routes of drains."""

    def __init__(self, desk: ConsoleDesk, access: MoveAccess) -> None:
        self._desk = desk
        self._access = access

    def routes(self) -> list[ConsoleRoute]:
        one = "/api/nodes/{broker:int}/drain"
        return [
            ConsoleRoute("POST", f"{one}/preview", self.preview),
            ConsoleRoute("POST", one, self.drain, changes="node.drain"),
            ConsoleRoute("DELETE", one, self.undrain, changes="node.undrain"),
        ]

    async def preview(self, request: WebRequest) -> WebAnswer:
        """The leaderships and replicas that would leave. Raises WebRefusal: 403, 404."""
        _, plan, is_hutong = await self._plan(request, request.json(DrainBody).what)
        return json({**plan.told(), "kind": "hutong" if is_hutong else "kafka"})

    async def drain(self, request: WebRequest) -> WebAnswer:
        """Begin what the preview showed. Raises WebRefusal: 403, 404, 409 for another plan."""
        body, node = request.json(DrainBody), request.number("broker")
        cluster, plan, is_hutong = await self._plan(request, body.what)
        if is_hutong and body.what == "replicas":
            return await self._command(request, plan, body.mark)
        answer = await self._access.begin(request, plan, body.mark, "node.drain", f"{node} ({body.what})")
        if body.what == "leaders":
            await self._elect(request, cluster, plan, is_hutong=is_hutong)
        return answer

    async def undrain(self, request: WebRequest) -> WebAnswer:
        """Let a drained node of Hutong lead and have replicas again. Raises WebRefusal: 403, 404, 409."""
        node = request.number("broker")

        def undrain(connection: OperatorConnection, is_hutong: bool) -> None:
            if not is_hutong:
                raise WebRefusal(409, "Apache Kafka does not remember drains: move replicas back instead.", CONFLICT)
            asking.commanded(connection, UndrainNode(node))

        await self._access.asked(request, undrain)
        await self._desk.record(request, "node.undrain", str(node))
        return WebAnswer(204)

    async def _plan(self, request: WebRequest, what: str) -> tuple[SeenCluster, MovePlan, bool]:
        node = request.number("broker")
        cluster = await ask_cluster(self._desk, await self._desk.account(request))
        here = {broker.id: broker.rack for broker in cluster.brokers}
        if node not in here and not any(node in one.replicas for one in cluster.partitions):
            raise WebRefusal(404, f"There is no broker {node}.", 40403)

        def plan(connection: OperatorConnection, is_hutong: bool) -> MovePlan:
            units, racks = _hutong(connection) if is_hutong else (_kafka(connection, cluster, node), here)
            return plan_drain(units, racks, node) if what == "replicas" else plan_leaders(units, here, node)

        found, is_hutong = await self._access.asked(request, plan)
        return cluster, found, is_hutong

    async def _command(self, request: WebRequest, plan: MovePlan, mark: str) -> WebAnswer:
        """Have Hutong's controller drain the node: it chooses the places, and goes on until all have left."""
        node = request.number("broker")
        check_mark(plan, mark)
        reply, _ = await self._access.asked(
            request, lambda connection, _: asking.commanded(connection, DrainNode(node)).groups
        )
        before = {step.unit.name: step.unit.replicas for step in plan.steps}
        await self._desk.record(request, "node.drain", f"{node} (replicas)", before, reply)
        return json({"begun": len(plan.steps), "failed": [], "failed_count": 0})

    async def _elect(self, request: WebRequest, cluster: SeenCluster, plan: MovePlan, *, is_hutong: bool) -> None:
        """Let the new preferred leaders lead now. One that cannot yet does so by itself once it is in sync."""
        if is_hutong:
            await self._access.asked(request, lambda connection, _: _elect_groups(connection, plan))
        else:
            await elect_preferred(self._desk, await self._desk.account(request), [*_places(plan)])


def _elect_groups(connection: OperatorConnection, plan: MovePlan) -> None:
    for step in plan.steps:
        try:
            asking.commanded(connection, ElectPreferred((step.unit.name,)))
        # Not in sync at the moment. It leads as soon as it is: the controller sees to that.
        except Refused:
            continue


def _places(plan: MovePlan) -> Any:
    return (place for step in plan.steps for place in step.asked)


def _hutong(connection: OperatorConnection) -> tuple[list[MoveUnit], dict[int, str | None]]:
    """The groups, and the nodes that may take replicas, with their racks."""
    status, units = asking.hutong_units(connection)
    return units, _takers(status)


def _takers(status: ControllerStatus) -> dict[int, str | None]:
    return {
        each.node: each.rack
        for each in status.nodes
        if each.is_live and not each.is_drained and not (each.disk is not None and each.disk.is_short)
    }


def _kafka(connection: OperatorConnection, cluster: SeenCluster, node: int) -> list[MoveUnit]:
    topics: dict[str, list[int]] = {}
    for one in cluster.partitions:
        if node in one.replicas:
            topics.setdefault(one.topic, []).append(one.number)
    return asking.kafka_units(connection, cluster, asking.held_bytes(connection, cluster, topics))
