"""A connection before its link: drives a handshake within a deadline and small frames.

Knows nothing of what a handshake proves, nor of links.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hutong.cluster.peers.handshake.machine import Handshake
from hutong.cluster.peers.handshake.messages import REFUSAL, HandshakeRefused, PeerRefusal, encode_handshake
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import PeerLimits
from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, OwnerGone, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.handler import Peer
from hutong.wire.rocketmq.command import IS_ONEWAY, Command, encode_binary


class GreetingOwner(Protocol):
    """The receiver of how handshakes end."""

    def check_partner(self, greeting: "Greeting") -> None:
        """Raises HandshakeRefused where the one that has proven itself gets no link, OwnerGone where it is cut off."""
        ...

    def greeted(self, greeting: "Greeting") -> None:
        """Make the connection a link."""
        ...

    def greeting_failed(self, greeting: "Greeting", error: HutongError) -> None: ...


@dataclass(slots=True)
class GreetingServices:
    """The services that all greetings of a network share."""

    clock: Clock
    wheel: TimerWheel
    limits: PeerLimits
    owner: GreetingOwner
    cut: Callable[[Peer], None]


class Greeting:
    """`to_node` is the node that was dialled, None where the other side has dialled."""

    def __init__(self, peer: Peer, handshake: Handshake, to_node: int | None, around: GreetingServices) -> None:
        self.peer = peer
        self.to_node = to_node
        self.handshake = handshake
        self._around = around
        self._is_over = False
        deadline_ms = around.clock.monotonic_ms() + around.limits.handshake_ms_max
        self._timer = around.wheel.add(deadline_ms, self._expire)

    @property
    def place(self) -> str:
        return f"{self.peer.address}:{self.peer.port}"

    @property
    def partner(self) -> PeerIdentity:
        assert self.handshake.partner is not None, "the other side has not proven itself"
        return self.handshake.partner

    def begin(self) -> None:
        """Send what the side that dialled says first."""
        self._send(self.handshake.begin())

    def received(self, command: Command, _: int) -> bool:
        """Take a message of the handshake. Raises ProtocolError."""
        if self._is_over:
            return True
        try:
            sent = self.handshake.receive(command.code, command.body)
            # Asked for where this side says its last word: a link that it does not want is refused in time.
            if self.handshake.partner is not None:
                self._around.owner.check_partner(self)
        except HandshakeRefused as error:
            self._refuse(error)
            return True
        except OwnerGone as error:
            self.peer.close()
            self._fail(error)
            return True
        except ProtocolError as error:
            self._fail(error)
            raise
        # Proven: from here on the other side may send large frames, before it can know that it may.
        if self.handshake.partner is not None:
            self.peer.frame_limit = self._around.limits.frame_bytes_max
        self._send(sent)
        if self.handshake.is_done:
            self._end()
            self._around.owner.greeted(self)
        return True

    def connection_closed(self) -> None:
        self._fail(OwnerGone("the connection ended"))

    def _send(self, messages: list[tuple[int, bytes]]) -> None:
        for code, body in messages:
            self.peer.push([encode_binary(code, 0, IS_ONEWAY, body=body)])

    def _refuse(self, error: HandshakeRefused) -> None:
        if not error.is_theirs:
            self._send([(REFUSAL, encode_handshake(PeerRefusal(error.reason)))])
        self.peer.close()
        self._fail(error)

    def _expire(self) -> None:
        self._fail(Expired(f"no link within {self._around.limits.handshake_ms_max} ms"))
        self._around.cut(self.peer)

    def _fail(self, error: HutongError) -> None:
        if not self._is_over:
            self._end()
            self._around.owner.greeting_failed(self, error)

    def _end(self) -> None:
        self._is_over = True
        self._timer.cancel()
