"""A bridge: the state that all clients of one listener share, over any transport.

A transport makes one, calls `connect` for each client that opens a connection, and then `ConnectedClient.receive`,
`ConnectedClient.sending_changed` and, when the connection is gone, `ConnectedClient.ended`.

Knows no transports.
"""

from itertools import count
from typing import Any, Final

from hutong.bus.bridge.driver import Answer, BridgeServices, ConnectedClient, Outlet
from hutong.bus.bridge.figures import BridgeFigures
from hutong.bus.bridge.hooks import Authenticator, BridgeEvent, BridgePeer, EventHook, EventKind
from hutong.bus.bridge.limits import BridgeLimits, default_limits
from hutong.bus.bridge.permissions import Permissions
from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.runtime.contexts.contexts import Context
from hutong.wire.vertx.codes import Dialect
from hutong.wire.vertx.server_frames import FrameEncoder

REPLIES_OWED_MAX: Final = 1_000_000  # by all clients together
SLOW_CLIENTS_MAX: Final = 1_000_000  # the reactor bounds connections


class Bridge:
    """Clients of one listener on one event bus, in one context whose loop the transport runs on."""

    def __init__(
        self,
        bus: EventBus,
        context: Context,
        dialect: Dialect,
        permissions: Permissions,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: BridgeLimits | None = None,
        authenticator: Authenticator | None = None,
        hook: EventHook | None = None,
    ) -> None:
        self.dialect = dialect
        self.limits = limits or default_limits(dialect)
        self.figures = BridgeFigures()
        self._ids = count(1)
        self._services = BridgeServices(
            bus,
            context,
            dialect,
            permissions,
            self.limits,
            clock,
            WaitTable[Answer](f"{dialect.value}_bridge_replies_owed", wheel, REPLIES_OWED_MAX),
            WaitTable[None](f"{dialect.value}_bridge_slow_clients", wheel, SLOW_CLIENTS_MAX),
            authenticator,
            hook,
            self.figures,
            FrameEncoder(dialect) if hook is None else None,
        )

    @property
    def waits(self) -> dict[str, WaitTable[Any]]:
        """The wait tables by name, for the metrics."""
        return {table.name: table for table in (self._services.replies_owed, self._services.slow_clients)}

    def connect(self, peer: BridgePeer, outlet: Outlet) -> ConnectedClient | None:
        """A new client, or None where the event hook refuses it: then its connection is to be closed."""
        peer.id = next(self._ids)
        client = ConnectedClient(self._services, peer, outlet)
        if not client.happens(BridgeEvent(EventKind.OPENED, peer)):
            return None
        self.figures.clients += 1
        self.figures.clients_total += 1
        return client
