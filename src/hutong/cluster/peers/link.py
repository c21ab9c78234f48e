"""A link: one connection whose both ends have proven who they are.

Strategy: messages are sent at once, for a producer waits for most of them; the loop writes those of one iteration
together. A heartbeat goes out twice a second and is answered at once. So the other side hears something in any case,
and the round trip under load is known. A link that is silent for too long ends, unless it was this process itself that
did not run: then what came is not read yet.

Knows nothing of handshakes, nor of how a connection is made.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hutong.cluster.peers.codec import MESSAGE_CODE_MAX, MESSAGE_CODE_MIN, decode_message, frame_message
from hutong.cluster.peers.figures import PeerFigures
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import PeerLimits
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.peers.questions import BODY_BYTES_MAX, answer_of, question_command, too_large
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.remoting.channels.channel import Channel
from hutong.replication.replica_messages import ReplicaMessage
from hutong.wire.rocketmq.command import IS_ONEWAY, IS_RESPONSE, Command, encode_binary

HEARTBEAT: Final = 0x6101
HEARTBEAT_ANSWERED: Final = 0x6102
UNCHECKED_BYTES_MAX: Final = 64 * 1024  # sent without a look at how much is unsent: that may cost a system call
_TIME: Final = struct.Struct(">q")
_log = logging.getLogger("hutong.cluster.peers")


class LinkEnd(Enum):
    """The reason for the end of a link."""

    LOST = "the connection ended"
    SILENT = "nothing came any more"
    UNSENT = "too much was unsent"
    REPLACED = "a newer one took its place"
    CLOSED = "this node closes its links"


@dataclass(slots=True)
class LinkServices:
    """The services that all links of a network share. `ended` and `was_told` are called with the link."""

    clock: Clock
    wheel: TimerWheel
    limits: PeerLimits
    call_soon: Callable[..., object]
    ended: "Callable[[PeerLink, LinkEnd], None]"
    was_told: Callable[[int, ReplicaMessage], None]


class PeerLink:
    """Open from its construction until `is_over`. `owed` counts the questions of the other side without an answer."""

    __slots__ = (
        "_around",
        "_asked_us",
        "_channel",
        "_due_ms",
        "_figures",
        "_held_bytes",
        "_push",
        "_send",
        "_timer",
        "_unchecked_bytes",
        "answered_ms",
        "heard_ms",
        "is_over",
        "opened_ms",
        "owed",
        "partner",
    )

    def __init__(self, partner: PeerIdentity, channel: Channel, figures: PeerFigures, around: LinkServices) -> None:
        self.partner = partner
        self.is_over = False
        self.owed = 0
        self.heard_ms = self.opened_ms = around.clock.monotonic_ms()
        self.answered_ms: int | None = None  # when the newest heartbeat was sent that was answered
        self._channel = channel
        self._figures = figures
        self._around = around
        self._push = channel.peer.push
        self._send = channel.peer.send
        self._asked_us = 0  # the time in the last heartbeat
        self._held_bytes = 0  # of an unfinished frame, at the last look
        self._unchecked_bytes = 0
        self._due_ms = 0
        self._timer: Timer | None = None
        figures.is_open = True
        figures.links_total += 1

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def unsent_bytes(self) -> int:
        return self._channel.peer.unsent_bytes()

    @property
    def figures(self) -> PeerFigures:
        return self._figures

    def begin(self) -> None:
        """Send the first heartbeat, and listen for those of the other side."""
        self._beat(self.opened_ms)

    def send(self, message: ReplicaMessage) -> None:
        """Send it after all before it. A link with too much unsent ends instead."""
        if self.is_over:
            return
        try:
            frame = frame_message(message, self._around.limits.frame_bytes_max)
        # Our own fault; the replica behind it cannot go on without this message, and a new link begins afresh.
        except ValueError as error:
            _log.error("A message to node %d cannot be sent: %s.", self.partner.node, error)
            self.end(LinkEnd.UNSENT)
            return
        size = sum(map(len, frame))
        self._unchecked_bytes += size
        if self._unchecked_bytes > UNCHECKED_BYTES_MAX and not self._has_room(size):
            self.end(LinkEnd.UNSENT)
            return
        self._figures.messages_out_total += 1
        self._figures.bytes_out_total += size
        # Not pushed, which would let the loop read more requests first: nearly always one message leaves alone.
        self._send(frame)

    def ask(self, question: PeerMessage, timeout_ms: int, then: Continuation[PeerMessage]) -> None:
        """Ask; `then` is called in a later iteration of the loop. Raises ValueError for what no question is."""

        def answered(outcome: Command | HutongError) -> None:
            if not isinstance(outcome, Command):
                then(outcome)
                return
            self._figures.bytes_in_total += len(outcome.body)
            answer = answer_of(outcome)
            # Before the continuation: it may ask again.
            if isinstance(answer, ProtocolError):
                self.end(LinkEnd.LOST)
            then(answer)

        command = question_command(question)
        # It may be a client's request that is passed on: its size is no fault of the caller.
        if len(question.body) > BODY_BYTES_MAX:
            self._around.call_soon(then, too_large(question))
            return
        try:
            self._channel.invoke_then(command, timeout_ms, answered)
        except LimitExceeded as error:
            self._around.call_soon(then, error)
            return
        self._figures.questions_out_total += 1
        self._figures.bytes_out_total += len(question.body)

    def end(self, reason: LinkEnd) -> None:
        """End it, once. The connection is for the owner to close."""
        if self.is_over:
            return
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._figures.is_open = False
        self._around.ended(self, reason)

    # For the endpoint.

    def received(self, command: Command, size: int) -> bool:
        """Take a command; False for one that is a question or an answer. Raises ProtocolError."""
        if self.is_over:
            return True
        self.heard_ms = self._around.clock.monotonic_ms()
        code = command.code
        if command.flag & IS_RESPONSE:
            return False
        if MESSAGE_CODE_MIN <= code <= MESSAGE_CODE_MAX:
            message = decode_message(command)
            self._figures.messages_in_total += 1
            self._figures.bytes_in_total += size
            self._around.was_told(self.partner.node, message)
        elif code == HEARTBEAT:
            self._push([encode_binary(HEARTBEAT_ANSWERED, 0, IS_ONEWAY, command.ext_block or b"")])
        elif code == HEARTBEAT_ANSWERED:
            self._measure(command.ext_block or b"")
        else:
            return False
        return True

    def connection_closed(self) -> None:
        self.end(LinkEnd.LOST)

    # Steps of the above.

    def _has_room(self, size: int) -> bool:
        unsent_bytes = self.unsent_bytes
        self._unchecked_bytes = 0
        # A single message may have any size.
        return not unsent_bytes or unsent_bytes + size <= self._around.limits.unsent_bytes_max

    def _measure(self, content: bytes) -> None:
        if len(content) == _TIME.size:
            (asked_us,) = _TIME.unpack(content)
            # An answer may take longer than the next heartbeat. Times of before this link are not its own.
            if self.opened_ms <= asked_us // 1_000 and asked_us <= self._asked_us:
                self.answered_ms = max(self.answered_ms or 0, asked_us // 1_000)
        if content == _TIME.pack(self._asked_us):
            self._figures.round_trip_us = self._around.clock.monotonic_us() - self._asked_us

    def _tick(self) -> None:
        now_ms, limits = self._around.clock.monotonic_ms(), self._around.limits
        held_bytes = self._channel.peer.framing.bytes_held
        # A large frame is on its way, however slowly.
        if held_bytes and held_bytes != self._held_bytes:
            self.heard_ms = now_ms
        self._held_bytes = held_bytes
        # The loop did not run in time, so it has not read in time either.
        was_stopped = now_ms - self._due_ms > limits.heartbeat_ms
        if now_ms - self.heard_ms >= limits.silence_ms_max and not was_stopped:
            self.end(LinkEnd.SILENT)
            return
        self._beat(now_ms)

    def _beat(self, now_ms: int) -> None:
        limits = self._around.limits
        self._asked_us = self._around.clock.monotonic_us()
        self._push([encode_binary(HEARTBEAT, 0, IS_ONEWAY, _TIME.pack(self._asked_us))])
        silent_at_ms = self.heard_ms + limits.silence_ms_max
        # Past where this process was stopped: what came meanwhile is read before the next look.
        if silent_at_ms <= now_ms:
            silent_at_ms = now_ms + limits.heartbeat_ms
        # At the same moments for all links, and as followers have them: an idle node sleeps between.
        next_ms = now_ms - now_ms % limits.heartbeat_ms + limits.heartbeat_ms
        self._due_ms = min(next_ms, silent_at_ms)
        self._timer = self._around.wheel.add(self._due_ms, self._tick)
