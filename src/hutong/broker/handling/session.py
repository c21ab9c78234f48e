"""One client's connection, as far as handlers know it: by which listener it came, and who the client is.

Strategy: one object per connection, kept in its peer; whoever authenticates the client changes `principal`. `times` are
of the API that was asked last, and `paused_at_us` when the client stopped reading, for whoever measures.

Knows nothing of frames or sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.handling.listeners import Listener
from hutong.security.principals import ANONYMOUS, Principal
from hutong.security.sasl.machine import Login

if TYPE_CHECKING:
    from hutong.broker.dispatch.request_times import ApiTimes


class Session:
    """From the opening of a connection to its end.

    `login` is how far its authentication is; None where its listener asks for none.
    """

    __slots__ = ("listener", "login", "paused_at_us", "principal", "times")

    def __init__(self, listener: Listener, principal: Principal = ANONYMOUS) -> None:
        self.listener = listener
        self.login: Login | None = None
        self.principal = principal
        self.times: ApiTimes | None = None
        self.paused_at_us = 0
