"""The way to one other node: its outbox, its connection, and the requests that it has not answered.

Strategy: a send puts its frame into the outbox, and a pass over it gives frames to the connection together. A request
is remembered here until it is answered, so that it fails with the node. Requests that ended otherwise are found out
when the table has doubled, which costs nothing for each.

Knows no other node. Everything except what `outbox.run` calls is on the loop's thread.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from hutong.bus.clustered.figures import NodeTraffic
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.outbox import Outbox, Outgoing
from hutong.bus.clustered.translation import FrameSender, carried, frame_bytes
from hutong.bus.envelope.codecs import SYSTEM_CODECS
from hutong.bus.envelope.message import FullMessage, Message
from hutong.bus.envelope.reply import Reply
from hutong.bus.envelope.service_failure import ServiceFailure, ServiceFailureCodec
from hutong.bus.errors import BUILT_IN_CODE, FailureType, ReplyError, carrying_failed
from hutong.foundation.errors import LimitExceeded
from hutong.reactor.connections.handler import Peer
from hutong.wire.buffer import Buffer

AWAITED_LOOKED_THROUGH: Final = 1_024
"""Unanswered requests of one node from which on those that ended otherwise are looked for."""
_log = logging.getLogger("hutong.bus")


class NodeLink:
    """Made for each node that something was sent to. `own` is this node."""

    def __init__(
        self,
        node: str,
        own: FrameSender,
        loop: asyncio.AbstractEventLoop,
        limits: ClusteredLimits,
        wanted: Callable[["NodeLink"], object],
    ) -> None:
        """`wanted(link)` is called where messages wait for a connection."""
        self.node = node
        self.peer: Peer | None = None
        self.sent = NodeTraffic()
        self.attempt = 0  # numbers attempts to connect; one that is given up has another number than the last
        self.outbox = Outbox(loop, limits, lambda: wanted(self), self._transmit)
        self._own = own
        self._awaited: dict[object, Reply] = {}
        self._looked_through = AWAITED_LOOKED_THROUGH

    def send(self, message: Message) -> None:
        """For the outbox: put the frame of what somebody here has sent. On the sender's thread."""
        reply: Reply | None = message._reply
        try:
            data = frame_bytes(message, self._own)
        except Exception as error:  # noqa: BLE001  # a codec is other people's code, and the sender's goes on
            failure = carrying_failed(f"the message to {message.address!r}", error)
            # Nobody waits for a plain send, so the log is the only place for it.
            if reply is None:
                _log.warning("%s", failure)
            else:
                reply.fail(failure)
            return
        credit = message._credit
        # The frame has it from now on: somebody may keep the message.
        if isinstance(message, FullMessage):
            message._credit = None
        self.outbox.put((data, reply, credit))

    def answer(self, message: Message) -> None:
        """For the outbox: put the answer to a request of that node. On the thread of who answers."""
        try:
            data = frame_bytes(message, self._own)
        except Exception as error:  # noqa: BLE001  # as above
            failure = carrying_failed("the reply", error)
            data = frame_bytes(failed(message.address, failure), self._own)
            _log.warning("%s", failure)
        # An answer may ask back.
        self.outbox.put((data, message._reply, None))

    def take_awaited(self, number: int) -> Reply | None:
        """The request with this number that was sent to the node; it counts as answered then."""
        return self._awaited.pop(number, None)

    def fail_all(self, reason: str) -> None:
        """Fail what waits for a connection, and the requests that are not answered."""
        text = f"node {self.node} cannot answer: {reason}"
        lost = 0
        for _, reply, _ in self.outbox.take_all():
            if reply is None:
                lost += 1
            else:
                reply.fail(ReplyError(FailureType.ERROR, BUILT_IN_CODE, text))
        awaited, self._awaited = self._awaited, {}
        for reply in awaited.values():
            reply.fail(ReplyError(FailureType.ERROR, BUILT_IN_CODE, text))
        if lost:
            _log.warning("%d messages for node %s are lost: %s", lost, self.node, reason)

    @property
    def awaited_count(self) -> int:
        return len(self._awaited)

    def check_invariants(self) -> None:
        self.outbox.check_invariants()
        assert self.peer is not None or self.outbox.is_held
        assert len(self._awaited) < self._looked_through

    def _remember(self, reply: Reply) -> None:
        self._awaited[reply._number] = reply
        if len(self._awaited) >= self._looked_through:
            self._awaited = {number: each for number, each in self._awaited.items() if each.is_waiting}
            self._looked_through = max(AWAITED_LOOKED_THROUGH, 2 * len(self._awaited))

    def _transmit(self, frames: list[Outgoing], size: int) -> None:
        assert self.peer is not None, "an outbox is released with a connection"
        ready: list[Buffer] = []
        for data, reply, _ in frames:
            ready.append(data)
            if reply is not None:
                self._remember(reply)
        self.sent.messages_total += len(ready)
        self.sent.bytes_total += size
        # The connection has them now, and bounds what it has; their credits return with the list of frames. Sent at
        # once: a pass comes once in a loop iteration.
        self.peer.send(ready)


class RemoteConsumers:
    """All consumers of one node at one address, as one receiver of the local bus."""

    __slots__ = ("_link", "address", "context", "turns")

    is_remote = True
    local_only = False
    shares_bodies = True  # they are only made bytes

    def __init__(self, address: str, link: NodeLink, turns: int) -> None:
        self.address = address
        self.turns = turns
        self.context = link.outbox
        self._link = link

    def deliver(self, message: Message) -> None:
        self._link.send(message)

    def take_carefully(self, message: Message) -> None:
        self._link.send(message)

    def settle(self) -> None:
        """Do nothing: interceptors of this process do not concern the handlers of another."""


class RemoteReply(Reply):
    """The reply that another node awaits. Answers go straight to it, by any thread. Made by `remote_reply`."""

    __slots__ = ("_is_answered", "_link")

    is_remote = True

    _is_answered: bool
    _link: NodeLink
    __init__ = object.__init__

    @property
    def is_waiting(self) -> bool:
        """True until it is answered from here. When its time is over, the other node alone knows."""
        return not self._is_answered

    @property
    def address(self) -> str:
        return str(self._number)

    def resume(self, value: Message) -> bool:
        if self._is_answered:
            return False
        # Before it is marked: a full queue raises, and the handler's failure may still be tried.
        self._link.outbox.run(self._link.answer, value)
        self._is_answered = True
        return True

    def fail(self, error: Any) -> bool:
        try:
            return self.resume(failed(self.address, carried(error)))
        # That node asks and does not read. Its request ends with its own timeout.
        except LimitExceeded as exceeded:
            self._is_answered = True
            _log.warning("an answer to node %s is lost: %s", self._link.node, exceeded)
            return False


def remote_reply(bus: Any, link: NodeLink, address: str, requested: str) -> RemoteReply:
    """The reply that the node of the link awaits at the address."""
    # Slots filled here cost half of an `__init__`, and each request has one.
    reply: RemoteReply = RemoteReply()
    reply.bus = bus
    reply._number = address  # type: ignore[assignment]  # the address of the message that answers it
    reply._requested = requested
    reply._link = link
    reply._is_answered = False
    return reply


def failed(address: str, error: ReplyError) -> FullMessage:
    """The message that fails the request whose reply is awaited at the address."""
    codec: Any = ServiceFailureCodec() if isinstance(error, ServiceFailure) else SYSTEM_CODECS["replyexception"]
    return FullMessage(address, error, None, None, True, codec)
