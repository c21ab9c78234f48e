"""All routes of the gateway, and its life: idle clients are closed, and the rest at the end.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.rest.acls import AclsV3
from hutong.rest.clusters import ClustersV3
from hutong.rest.gateway import Gateway
from hutong.rest.groups import GroupsV3
from hutong.rest.openapi import API
from hutong.rest.reading.live import LiveRecords
from hutong.rest.reading.positions import RecordsByPosition
from hutong.rest.reading.showing import RecordViews
from hutong.rest.records.decoding import RecordDecoder
from hutong.rest.records.encoding import RecordEncoder
from hutong.rest.records.v3 import RecordsV3
from hutong.rest.resources import related
from hutong.rest.topics import TopicsV3
from hutong.rest.v2.consume import ConsumeV2
from hutong.rest.v2.instances import Instances
from hutong.rest.v2.produce import ProduceV2
from hutong.web.answers import WebAnswer, json
from hutong.web.openapi import described
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.foundation.clock import Clock
    from hutong.rest.accounts import Accounts, Blocking
    from hutong.rest.records.schemas import SchemasNow
    from hutong.web.requests import WebRequest


class RestApi:
    """The gateway as routes for a web server, whose admission is `gateway`."""

    def __init__(
        self,
        accounts: Accounts,
        clock: Clock,
        blocking: Blocking,
        schemas: SchemasNow = lambda: None,
        *,
        is_secure: bool = False,
    ) -> None:
        """`is_secure`: it is served through TLS, as links say."""
        self.gateway = Gateway(accounts, clock, blocking)
        encoder, decoder = RecordEncoder(self.gateway, schemas), RecordDecoder(schemas)
        views = RecordViews(self.gateway, decoder)
        self._instances = Instances(self.gateway, decoder)
        rooms = (
            ClustersV3(self.gateway),
            TopicsV3(self.gateway),
            RecordsV3(self.gateway, encoder),
            RecordsByPosition(self.gateway, views),
            LiveRecords(self.gateway, views),
            GroupsV3(self.gateway),
            AclsV3(self.gateway),
            ProduceV2(self.gateway, encoder),
            ConsumeV2(self.gateway, self._instances, decoder, "https" if is_secure else "http"),
        )
        served = [route for room in rooms for route in room.routes()]
        self._description = json(described(served, API))
        self.routes = [
            *served,
            WebRoute("GET", "/openapi.json", self._describe, is_public=True),
            WebRoute("GET", "/", _begin, is_public=True),
        ]

    async def close_idle(self) -> None:
        """Close the consumers and clients that nobody has used for a while."""
        self._instances.remove_idle()
        await self.gateway.accounts.close_idle()

    async def close(self) -> None:
        """Leave all groups, and close all clients."""
        self._instances.close()
        await self.gateway.close()

    def _describe(self, request: WebRequest) -> WebAnswer:
        return self._description


def _begin(request: WebRequest) -> WebAnswer:
    """Answer the first question of a person with a browser."""
    return json({"clusters": related("/v3/clusters"), "description": related("/openapi.json")})
