"""The inbox of a client's connection: what came and was not taken yet, with a bound at which nothing more is read.

Strategy: frames come as the handler of a connection, values as the tail of its pipeline. At the bound the one answers
HELD, the other holds its pipeline, so that the other side feels it.

Knows nothing of sockets.
"""

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Final

from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.front.defaults import LoopTime, checked_ms
from hutong.reactor.pipeline.machine import ConnectionPipeline
from hutong.wire.buffer import Buffer

INBOX_FRAMES_MAX: Final = 256
INBOX_BYTES_MAX: Final = 1024 * 1024
"""Frames received and not taken; what comes beyond either is left to the connection, which then stops reading."""
INBOX_WAITS_MAX: Final = 1_024
"""Tasks that wait in `receive` and `send` of one connection; one more gets LimitExceeded."""
_CHANGE: Final = "change"


class Inbox(ABC):
    """The part of one connection that its program reads."""

    def __init__(self, time: LoopTime) -> None:
        self.peer: Peer | None = None
        self.is_paused = False
        self.has_ended = False
        self._time = time
        self._values: deque[tuple[Any, int]] = deque()  # each with its size
        self._bytes = 0
        self._is_full = False
        self._changes: WaitTable[None] = WaitTable("INBOX_WAITS_MAX", time.wheel, INBOX_WAITS_MAX)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_room(self) -> bool:
        return len(self._values) < INBOX_FRAMES_MAX and self._bytes < INBOX_BYTES_MAX

    def take(self) -> Any:
        """The oldest frame or value; one must be there."""
        value, size = self._values.popleft()
        # By bytes as well: 256 frames of the largest size would be 256 MiB.
        self._bytes -= size
        has_room = 2 * len(self._values) <= INBOX_FRAMES_MAX and 2 * self._bytes <= INBOX_BYTES_MAX
        # Half against flapping: else each frame taken would start and stop the reading.
        if self._is_full and has_room:
            self._is_full = False
            self._release()
        return value

    def deadline_ms(self, seconds: float) -> int:
        return self._time.clock.monotonic_ms() + checked_ms(seconds)

    async def wait_for_change(self, deadline_ms: int | None = None) -> None:
        """Return at the next frame, at the end, and when the other side reads again. Raises Expired, LimitExceeded."""
        await self._changes.wait(_CHANGE, deadline_ms=deadline_ms)

    def open(self, peer: Peer) -> None:
        self.peer = peer
        # Frames are taken while the other side does not read: the inbox is bounded, and two such sides cannot deadlock.
        peer.is_duplex = True

    def end(self) -> None:
        # Callers of `receive` and `send` wait for a change, and the end is the last one.
        self.has_ended = True
        self._report_change()

    def sending_changed(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        self._report_change()

    def _keep(self, value: Any, size: int) -> None:
        self._values.append((value, size))
        self._bytes += size
        self._report_change()

    def _report_change(self) -> None:
        # All of them: some wait for a frame, others for room, and the end is for everyone.
        self._changes.resume_all(_CHANGE, None)

    @abstractmethod
    def _release(self) -> None:
        """Have the connection read again."""


class FrameInbox(Inbox):
    """The inbox as the handler of a connection without a pipeline."""

    def connection_opened(self, peer: Peer) -> None:
        self.open(peer)
        peer.sending_changed = self.sending_changed

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        # The frame stays with the connection, which gives it again.
        if not self.has_room:
            self._is_full = True
            return HELD
        self._keep(frame, len(frame))
        return None

    def connection_closed(self, peer: Peer) -> None:
        self.end()

    def _release(self) -> None:
        if self.peer is not None:
            self.peer.release()


class ValueInbox(Inbox):
    """The inbox as the tail of a pipeline: values that the last handler passes on."""

    def __init__(self, time: LoopTime) -> None:
        super().__init__(time)
        self._pipeline: ConnectionPipeline | None = None
        self._counted_bytes = 0

    @property
    def pipeline(self) -> ConnectionPipeline:
        assert self._pipeline is not None, "its connection was opened"
        return self._pipeline

    def opened(self, pipeline: ConnectionPipeline, peer: Peer) -> None:
        self._pipeline = pipeline
        self.open(peer)

    def take_value(self, value: Any) -> None:
        pipeline = self.pipeline
        # A value has no size. It counts for the bytes that came since the one before, so the sum is right to one read.
        size = pipeline.bytes_received_total - self._counted_bytes
        self._counted_bytes += size
        self._keep(value, size)
        # Taken all the same: a handler may pass several values on for one frame.
        if not self.has_room:
            self._is_full = True
            pipeline.hold(self)

    def resume(self) -> None:
        """Do nothing: every value was kept."""

    def ended(self) -> None:
        self.end()

    def _release(self) -> None:
        self.pipeline.release(self)
