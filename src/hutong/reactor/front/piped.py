"""Drives a pipeline for each connection of an acceptor.

Strategy: the framing of such a connection is its pipeline, so that the bytes of begun frames count and have their
deadline as everywhere. What the handlers sent is the answer of the one "request" that a read makes. Where the output of
one read is too long, it is sent, and the request is held until the peer has read it: then the pipeline cuts on.

Knows nothing of what handlers do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, cast

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import Timer
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.front.defaults import LoopTime
from hutong.reactor.pipeline.machine import ConnectionPipeline, PipelineHandler, SendingChanged
from hutong.wire.buffer import Buffer

MakePipeline: TypeAlias = Callable[[], Sequence[PipelineHandler]]
"""Makes the handlers of one connection, in order from the socket to the program."""
RESUME_MS = 10


class PipelineFraming:
    """The pipeline of one connection, for the reactor: a read that has an effect is one frame."""

    def __init__(self, frame_bytes_max: int, handlers: Sequence[PipelineHandler], clock: Clock) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.failure: ProtocolError | None = None
        self.pipeline = ConnectionPipeline(handlers, clock.monotonic_ms())
        self._clock = clock

    @property
    def bytes_held(self) -> int:
        # Of a stalled pipeline these are whole frames, which wait for this side: no deadline of the peer's.
        return 0 if self.pipeline.is_stalled else self.pipeline.bytes_held

    @bytes_held.setter
    def bytes_held(self, count: int) -> None:
        raise AttributeError("the handlers count what they hold")

    def receive_data(self, data: Buffer) -> list[Buffer]:
        pipeline = self.pipeline
        before = pipeline.frames_total, pipeline.next_deadline_ms
        pipeline.receive_data(data, self._clock.monotonic_ms())
        # A read that only continues a frame is none: the frame's deadline must not begin anew with each byte.
        is_same = before == (pipeline.frames_total, pipeline.next_deadline_ms)
        return [] if is_same and not pipeline.has_output and not pipeline.is_closing else [b""]


class PipelineConnection:
    """One connection: `peer.session` of its peer."""

    def __init__(self, peer: Peer, time: LoopTime) -> None:
        self.pipeline = cast(PipelineFraming, peer.framing).pipeline
        self._peer = peer
        self._time = time
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._is_held = False

    def open(self) -> None:
        self._peer.sending_changed = self._sending_changed
        self.pipeline.wake = self._flush
        self.pipeline.open(self._now_ms())
        self._flush()

    def answer_read(self) -> Response:
        """The response to a read, or to the rest of one."""
        pipeline = self.pipeline
        # The request that was held is given again: the peer has read enough.
        if self._is_held:
            self._is_held = False
            pipeline.resume(self._now_ms())
        output = pipeline.data_to_send()
        # Raised with the output pushed before: what was sent before the fault still goes out.
        if pipeline.failure is not None:
            self._peer.push(output)
            raise pipeline.failure
        # As an answer it would be dropped: the connection takes none after its close.
        if pipeline.is_closing:
            self._peer.push(output)
            self._peer.close()
            return None
        self._remind()
        if pipeline.is_stalled:
            self._is_held = True
            self._peer.push(output)
            # The reactor gives the request again once the peer has read enough; it cannot before this call returns.
            self._time.loop.call_soon(self._peer.release)
            return HELD
        return output or None

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Handlers of other connections may keep this pipeline for a while.
        self.pipeline.wake = lambda: None
        self.pipeline.end(self._now_ms())

    def _flush(self) -> None:
        """Send what was sent outside of a read: at the opening, by a timer, by another connection's handler."""
        pipeline = self.pipeline
        output = pipeline.data_to_send()
        if output:
            self._peer.push(output)
        # The close comes behind the output: the reactor sends what is ready first.
        if pipeline.is_closing:
            self._peer.close()
        else:
            self._remind()

    def _remind(self) -> None:
        due_at_ms = self.pipeline.next_deadline_ms
        if self.pipeline.is_stalled and not self._is_held:
            due_at_ms = self._now_ms() + RESUME_MS
        # A reminder that is set for earlier stays: it fires, and looks again.
        if due_at_ms is None or (self._timer is not None and self._timer.is_waiting and self._timer_at_ms <= due_at_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = due_at_ms
        self._timer = self._time.wheel.add(due_at_ms, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        with self._supervised():
            self.pipeline.handle_timer(self._now_ms())
            # A stall outside of a read, which is a timer that removed a framing: nobody else resumes it.
            if self.pipeline.is_stalled and not self._is_held and not self._peer.unsent_bytes():
                self.pipeline.resume(self._now_ms())
            self._flush()

    def _sending_changed(self, is_paused: bool) -> None:
        with self._supervised():
            self.pipeline.fire_event(SendingChanged(is_paused))

    @contextmanager
    def _supervised(self) -> Iterator[None]:
        """Supervise handlers that no read called: a fault ends this connection, loudly."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the supervisor: a fault ends one connection, not all
            context = {"message": f"the pipeline of {self._peer} failed", "exception": error}
            self._time.loop.call_exception_handler(context)
            self._peer.close()

    def _now_ms(self) -> int:
        return self._time.clock.monotonic_ms()


class PipelineConnections:
    """The handler of the reactor for connections with pipelines."""

    def __init__(self, make: MakePipeline, time: LoopTime) -> None:
        self._make = make
        self._time = time

    def framing(self, frame_bytes_max: int) -> PipelineFraming:
        return PipelineFraming(frame_bytes_max, self._make(), self._time.clock)

    def connection_opened(self, peer: Peer) -> None:
        peer.session = PipelineConnection(peer, self._time)
        peer.session.open()

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        response: Response = peer.session.answer_read()
        return response

    def connection_closed(self, peer: Peer) -> None:
        peer.session.end()
