"""One client's connection as values: where it came from, by which listener, and who the client is.

Strategy: dispatch makes one object when a connection opens and keeps it in its peer; authentication changes
`principal`. Handlers get it with each request, so they know no connection and cannot write to one.

Knows nothing of frames or sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from hutong.broker.dispatch.request_times import ApiTimes
    from hutong.broker.handling.listeners import Listener
    from hutong.foundation.waiting.table import Owner
    from hutong.security.sasl.machine import Login


class ClientSession:
    """A connection from its opening to its end.

    `id` numbers the connections of a node. `owner` ends with the connection: waits that make sense only while the
    client is there are parked under it. `release` has the request handled again that was answered with HELD.
    `login` is the state of its authentication, None where the listener asks for none; `is_by_token`: it was by a
    delegation token. `software` is the name and version of the client's library (KIP-511). `times` are those of the
    API asked last and `paused_at_us` the time at which the client stopped reading, for the figures.
    """

    __slots__ = (
        "address",
        "id",
        "is_by_token",
        "listener",
        "login",
        "owner",
        "paused_at_us",
        "port",
        "principal",
        "release",
        "software",
        "times",
    )

    def __init__(
        self, number: int, address: str, port: int, listener: Listener, owner: Owner, release: Callable[[], None]
    ) -> None:
        self.id = number
        self.address = address
        self.port = port
        self.listener = listener
        self.owner = owner
        self.release = release
        self.principal: Principal = ANONYMOUS
        self.is_by_token = False
        self.software = ("", "")
        self.login: Login | None = None
        self.times: ApiTimes | None = None
        self.paused_at_us = 0
