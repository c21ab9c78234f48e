"""The routes that move replicas: a preview, the moves under way, and taking them back.

Strategy: the brokers check the user's rights, for each request is sent as the user. What a preview showed has a mark,
which the change must bring; else it is refused and looked at again.

Decides nothing about places: `plan` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hutong.console.nodes.asking import ask_cluster
from hutong.console.nodes.moving import asking
from hutong.console.nodes.moving.access import MoveAccess
from hutong.console.nodes.moving.plan import CONFLICT, MovePlan, checked_replicas, plan_move
from hutong.console.nodes.moving.under_way import MOVES_SHOWN_MAX, hutong_moves, kafka_moves
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.nodes.cluster import SeenCluster
    from hutong.console.nodes.moving.operators import OperatorConnection
    from hutong.web.requests import WebRequest

NUMBER_MAX: Final = 2**31 - 1
BYTES_PER_SECOND_MAX: Final = 2**53 - 1  # the largest number that is exact in a browser


class MoveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`partition` None: all of the topic. `together`: with all that are in one partition group with them.

    `bytes_per_second`: what each node of the move copies until it is done. `mark` is that of the preview.
    """

    topic: str
    replicas: list[int]
    partition: int | None = None
    together: bool = True
    bytes_per_second: Annotated[int, msgspec.Meta(ge=1, le=BYTES_PER_SECOND_MAX)] | None = None
    mark: str = ""


class TakeBackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition group, or a partition."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None


class MovePages:
    """The routes of moves."""

    def __init__(self, desk: ConsoleDesk, access: MoveAccess) -> None:
        self._desk = desk
        self._access = access

    def routes(self) -> list[ConsoleRoute]:
        here = "/api/nodes/moves"
        return [
            ConsoleRoute("GET", here, self.under_way),
            ConsoleRoute("POST", f"{here}/preview", self.preview),
            ConsoleRoute("POST", here, self.move, changes="replicas.move"),
            ConsoleRoute("POST", f"{here}/take-back", self.take_back, changes="replicas.take-back"),
        ]

    async def under_way(self, request: WebRequest) -> WebAnswer:
        """All moves under way; or why this console, or this user, can move nothing."""
        try:
            return json(await self._under_way(request))
        except WebRefusal as refusal:
            if refusal.status == 401:
                raise
            # The rest of the page works without: it shows the sentence.
            shown = {"can_move": False, "why_not": refusal.message, "kind": None, "moves": [], "drained": []}
            return json({**shown, "truncated": False})

    async def _under_way(self, request: WebRequest) -> dict[str, Any]:
        cluster = await ask_cluster(self._desk, await self._desk.account(request))

        def look(connection: OperatorConnection, is_hutong: bool) -> tuple[list[dict[str, Any]], list[int]]:
            if is_hutong:
                status, units = asking.hutong_moving(connection)
                return hutong_moves(status, units), [each.node for each in status.nodes if each.is_drained]
            moving = asking.reassignments(connection)
            topics: dict[str, list[int]] = {}
            for (topic, number), _, _ in moving[:MOVES_SHOWN_MAX]:
                topics.setdefault(topic, []).append(number)
            return kafka_moves(moving, cluster, asking.held_bytes(connection, cluster, topics)), []

        (moves, drained), is_hutong = await self._access.asked(request, look)
        return {
            "can_move": True,
            "why_not": None,
            "kind": "hutong" if is_hutong else "kafka",
            "moves": moves[:MOVES_SHOWN_MAX],
            "truncated": len(moves) > MOVES_SHOWN_MAX,
            "drained": drained,
        }

    async def preview(self, request: WebRequest) -> WebAnswer:
        """The moves that a wish amounts to. Raises WebRefusal: 400, 403, 404, 409."""
        plan, is_hutong = await self._plan(request, request.json(MoveBody))
        return json({**plan.told(), "kind": "hutong" if is_hutong else "kafka"})

    async def move(self, request: WebRequest) -> WebAnswer:
        """Begin what the preview showed. Raises WebRefusal: 409 where it would be something else by now."""
        body = request.json(MoveBody)
        plan, _ = await self._plan(request, body)
        target = body.topic if body.partition is None else f"{body.topic}/{body.partition}"
        return await self._access.begin(request, plan, body.mark, "replicas.move", target)

    async def take_back(self, request: WebRequest) -> WebAnswer:
        """Cancel a move. Raises WebRefusal: 400, 403, and 409 for one that has ended."""
        body = request.json(TakeBackBody)
        unit: str | tuple[str, int]
        if body.group is not None:
            unit = body.group
        elif body.topic is not None and body.partition is not None and 0 <= body.partition <= NUMBER_MAX:
            unit = (body.topic, body.partition)
        else:
            raise WebRefusal(400, "Name a partition group, or a topic and a partition.", 40002)
        failures, _ = await self._access.asked(request, lambda connection, _: asking.take_back(connection, unit))
        for error in failures.values():
            raise WebRefusal(409, error, CONFLICT)
        name = unit if isinstance(unit, str) else f"{unit[0]}/{unit[1]}"
        await self._desk.record(request, "replicas.take-back", name)
        return WebAnswer(204)

    async def _plan(self, request: WebRequest, body: MoveBody) -> tuple[MovePlan, bool]:
        cluster = await ask_cluster(self._desk, await self._desk.account(request))
        replicas = checked_replicas(body.replicas, {broker.id for broker in cluster.brokers})
        asked = _asked(body, cluster)
        topics = {body.topic: [number for _, number in asked]}

        def plan(connection: OperatorConnection, is_hutong: bool) -> MovePlan:
            held = asking.held_bytes(connection, cluster, topics)
            units = asking.hutong_units(connection)[1] if is_hutong else asking.kafka_units(connection, cluster, held)
            if is_hutong and not set(asked) <= {place for unit in units for place in unit.members}:
                raise WebRefusal(409, "The node does not tell which partitions move together.", CONFLICT)
            return plan_move(
                units,
                asked,
                replicas,
                asking.sizes_of(held),
                together=body.together,
                spreads=body.partition is None,
                bytes_per_second=body.bytes_per_second or 0,
            )

        return await self._access.asked(request, plan)


def _asked(body: MoveBody, cluster: SeenCluster) -> frozenset[tuple[str, int]]:
    """The partitions that the body names, as far as the user may see them. Raises WebRefusal(404)."""
    found = frozenset(
        (one.topic, one.number)
        for one in cluster.partitions
        if one.topic == body.topic and body.partition in (None, one.number)
    )
    if not found:
        raise WebRefusal(404, "There is no such topic or partition, or you may not see it.", 40403)
    return found
