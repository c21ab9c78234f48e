"""One client's connection, as far as handlers know it: by which listener it came, and who the client is.

Strategy: one object per connection, kept in its peer; whoever authenticates the client changes `principal`.

Knows nothing of frames or sockets.
"""

from hutong.broker.listeners import Listener
from hutong.security.principals import ANONYMOUS, Principal
from hutong.security.sasl.machine import Login


class Session:
    """From the opening of a connection to its end.

    `login` is how far its authentication is; None where its listener asks for none.
    """

    __slots__ = ("listener", "login", "principal")

    def __init__(self, listener: Listener, principal: Principal = ANONYMOUS) -> None:
        self.listener = listener
        self.login: Login | None = None
        self.principal = principal
