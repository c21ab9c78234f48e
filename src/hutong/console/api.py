"""All routes of the console, and its life.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.console.assets import Assets
from hutong.console.bus.bus_pages import BusPages
from hutong.console.dead_letters.pages import DeadLetterPages
from hutong.console.dead_letters.redrive_pages import RedrivePages
from hutong.console.groups.lag_stream import LagStream
from hutong.console.groups.pages import GroupPages
from hutong.console.groups.resets.pages import ResetPages
from hutong.console.nodes.moving.access import MoveAccess
from hutong.console.nodes.moving.drains import DrainPages
from hutong.console.nodes.moving.pages import MovePages
from hutong.console.nodes.pages import NodesPages
from hutong.console.nodes.sampler import NodeSampler
from hutong.console.openapi import API
from hutong.console.overview.pages import OverviewPages
from hutong.console.pipelines.pipeline_pages import PipelinePages
from hutong.console.records.budget import ReadBudget
from hutong.console.records.records_room import RecordsRoom
from hutong.console.schemas.changes import SchemaChanges
from hutong.console.schemas.pages import SchemaPages
from hutong.console.security.acls import AclPages
from hutong.console.security.users import UserPages
from hutong.console.services.service_pages import ServicePages
from hutong.console.settings.pages import SettingsPages
from hutong.console.signing_in import SigningIn
from hutong.console.topics.pages import TopicsPages
from hutong.console.trail.trail_pages import TrailPages
from hutong.console.trail.trail_spans import TrailSpans
from hutong.web.answers import json
from hutong.web.openapi import described
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.oidc.signing_on import SigningOn
    from hutong.console.routes import ConsoleRoute


class ConsoleApi:
    """The console as routes for a web server. `desk` is connected."""

    def __init__(self, desk: ConsoleDesk, provider: SigningOn | None = None) -> None:
        """With a `provider` users may sign in there."""
        self.desk = desk
        self._provider = provider
        self._redrives = RedrivePages(desk)
        budget = ReadBudget(desk.clock, desk.pause)
        moves = MoveAccess(desk, desk.outer.operators)
        sampler = None if desk.node is None else NodeSampler(desk, desk.node)
        rooms = (
            SigningIn(desk, provider),
            TopicsPages(desk),
            OverviewPages(desk, sampler),
            NodesPages(desk, sampler),
            MovePages(desk, moves),
            DrainPages(desk, moves),
            RecordsRoom(desk, budget),
            GroupPages(desk),
            LagStream(desk),
            ResetPages(desk),
            DeadLetterPages(desk),
            self._redrives,
            TrailPages(desk, budget),
            TrailSpans(desk),
            SchemaPages(desk),
            SchemaChanges(desk),
            BusPages(desk),
            ServicePages(desk),
            UserPages(desk),
            AclPages(desk),
            SettingsPages(desk),
            PipelinePages(desk),
        )
        served: list[ConsoleRoute] = [route for room in rooms for route in room.routes()]
        served += [] if provider is None else provider.routes()
        guarded = [desk.guard.guarded(route) for route in served]
        description = json(described(guarded, API))
        about = WebRoute("GET", "/api/openapi.json", lambda _: description, is_public=True)
        self.routes: list[WebRoute] = [*guarded, about, *Assets().routes()]

    async def close_idle(self) -> None:
        """Close the clients that nobody has used for a while."""
        await self.desk.gateway.accounts.close_idle()

    async def close(self) -> None:
        """End what runs, and close all clients."""
        if self._provider is not None:
            await self._provider.close()
        await self.desk.guard.changes.close()
        await self._redrives.close()
        await self.desk.close()
