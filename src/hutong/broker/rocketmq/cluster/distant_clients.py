"""Commands of clients that are connected to other nodes, which this node must handle.

Strategy: the same handlers as for a client of its own. What they need of a channel is a stand-in that lives as long as
one command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import LimitExceeded, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import ReadyAnswer, frame_of
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.command import Command, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.waiting.pending import Continuation
    from hutong.remoting.channels.answers import Answer
    from hutong.wire.buffer import Buffer

UNANSWERED_MAX: Final = 10_000
"""Commands of other nodes' clients that are not answered yet."""


class DistantPeer:
    """The connection of a client at another node, as far as a handler asks for it."""

    __slots__ = ("address", "id", "owner", "port", "release")

    def __init__(self, session: ClientSession) -> None:
        self.id = session.id
        self.address = session.address
        self.port = session.port
        self.owner = session.owner
        self.release = session.release


class DistantChannel:
    """The channel of a client at another node, for one command."""

    __slots__ = ("attributes", "peer", "principal")

    def __init__(self, session: ClientSession) -> None:
        self.peer = DistantPeer(session)
        self.principal = session.principal
        self.attributes: dict[str, Any] = {}


class DistantCommands:
    """Handles what other nodes hand over. `process` is the gateway's, for a command and its channel."""

    def __init__(self, process: Callable[[Command, DistantChannel], Answer]) -> None:
        self._process = process
        self._unanswered = 0

    def handle(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        """Handle one command, a frame without its size; `then` gets the frame of the answer, with its size."""
        try:
            command = decode(frame)
        except ProtocolError as error:
            then(Refused(ErrorCode.INVALID_REQUEST, str(error)))
            return
        # Pulls wait for 20 s, and the clients of all other nodes may send them here.
        if self._unanswered >= UNANSWERED_MAX:
            then(LimitExceeded("UNANSWERED_MAX", UNANSWERED_MAX))
            return
        self._unanswered += 1

        def answered(answer: ReadyAnswer) -> None:
            self._unanswered -= 1
            # A pull that nobody answers any more, for example.
            if answer is None:
                then(Refused(ErrorCode.REQUEST_TIMED_OUT, "The command has no answer."))
            else:
                then(b"".join(frame_of(answer, command) if isinstance(answer, Command) else answer))

        answer = self._process(command, DistantChannel(session))
        if isinstance(answer, Pending):
            answer.then(answered)
        else:
            answered(answer)
