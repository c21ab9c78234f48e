"""The usual messages of other nodes: those of one read, delivered in one step.

Strategy: what a read has brought is handed to contexts and replies without a frame object for each. Contexts of this
loop that were idle run at once, and answers to the node that has sent leave together at the end: so a request costs one
loop iteration here, and not three. All other messages go the careful way, frame by frame.

Knows no connections.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hutong.bus.clustered.link import NodeLink, remote_reply
from hutong.bus.clustered.permissions import ClusterRights
from hutong.bus.delivery.registrations import ReceivingQueue
from hutong.bus.delivery.remote import RemoteSide
from hutong.bus.envelope.codecs import CODECS_BY_NUMBER
from hutong.bus.envelope.message import REPLY_PREFIX, Message, TrackedMessage
from hutong.runtime.contexts.contexts import QUEUED_MAX
from hutong.wire.vertx.cluster_frames import ClusterFrame
from hutong.wire.vertx.usual_frames import VALUE_CODECS, UsualFrame


class UsualMessages:
    """Those for one node. Everything is on the loop's thread."""

    def __init__(
        self,
        side: RemoteSide,
        links: Mapping[str, NodeLink],
        rights: ClusterRights,
        loop: asyncio.AbstractEventLoop,
        careful: Callable[[ClusterFrame], object],
    ) -> None:
        """`careful(frame)` takes a message that is out of the ordinary."""
        self._side = side
        self._links = links
        self._rights = rights
        self._loop = loop
        self._careful = careful

    def take(self, node: str, frames: Sequence[UsualFrame]) -> None:
        """Take messages of the node, in their order."""
        link = self._links.get(node)
        # Nothing was sent to it so far: the careful way makes a link where an answer is due.
        if link is None:
            for frame in frames:
                self._careful(_frame_of(node, frame))
            return
        idle: dict[ReceivingQueue, None] = {}  # in order
        link.outbox.cork(len(frames))
        try:
            for frame in frames:
                if not self._take(link, frame, idle):
                    self._careful(_frame_of(node, frame))
        finally:
            # They have messages, also where one behind them has raised.
            for context in idle:
                context.run_queued()
            link.outbox.uncork()

    def _take(self, link: NodeLink, frame: UsualFrame, idle: dict[ReceivingQueue, None]) -> bool:
        """Take one message. False where it is out of the ordinary."""
        codec, address, reply_address, body, is_send = frame
        # An error, JSON and the like, whose bytes a codec has to read; a publication.
        if codec not in VALUE_CODECS or not is_send:
            return False
        if isinstance(address, str):
            return self._deliver(link, address, reply_address, body, idle)
        # It asks back.
        if reply_address is not None:
            return False
        awaited = link.take_awaited(address)
        if awaited is not None:
            message = Message(address, body)
            if self._side.bus.inbound_chain:
                self._side.receive_reply(awaited, message)
            else:
                awaited.resume_on(self._loop, message)
        return True

    def _deliver(
        self, link: NodeLink, address: str, reply_address: str | None, body: Any, idle: dict[ReceivingQueue, None]
    ) -> bool:
        """Queue the message for its consumer. False where that is not possible, or not permitted."""
        # First: a turn counts, also where nothing comes of it.
        if not self._rights.may_send_here(address):
            return False
        turn = self._side.turn(address)
        if turn is None:
            return False
        deliver, context = turn
        queue = context.queue
        if len(queue) >= QUEUED_MAX:
            return False
        if reply_address is None:
            queue.append((deliver, Message(address, body)))
        else:
            reply = remote_reply(self._side.bus, link, reply_address, address)
            queue.append((deliver, TrackedMessage(address, body, None, reply)))
        if not context.is_scheduled:
            idle[context] = None
        return True


def _frame_of(node: str, frame: UsualFrame) -> ClusterFrame:
    codec, address, reply_address, body, is_send = frame
    text = address if isinstance(address, str) else f"{REPLY_PREFIX}{address}"
    data = CODECS_BY_NUMBER[codec].encode(body) if codec in VALUE_CODECS else body
    return ClusterFrame(codec, text, node, data, reply_address, (), is_send)
