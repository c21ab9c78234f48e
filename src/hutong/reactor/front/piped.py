"""Drives a pipeline for each connection of an acceptor or a connector.

Strategy: the framing of such a connection is its pipeline, so that the bytes of begun frames count and have their
deadline as everywhere. What the handlers sent is the answer of the one "request" that a read makes. Where the output of
one read is too long, or the pipeline is held, the request is HELD: nothing is read, until the pipeline cuts on.

Knows nothing of what handlers do.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias, cast

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.limits import MEBIBYTE
from hutong.reactor.pipeline.ends import PipelineTail, SendingChanged
from hutong.reactor.pipeline.machine import ConnectionPipeline, PipelineHandler
from hutong.wire.buffer import Buffer

MakePipeline: TypeAlias = Callable[[], Sequence[PipelineHandler]]
"""Makes the handlers of one connection, in order from the socket to the program."""
RESUME_MS: Final = 10
DUPLEX_UNSENT_BYTES_MAX: Final = 16 * MEBIBYTE
"""Of a duplex connection, which is read although its peer does not read: beyond it nothing is read that is answered."""


class DrivenTime(Protocol):
    """A loop, with a clock and driven timers: those of a front, or of an endpoint."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def wheel(self) -> TimerWheel: ...


class ConnectionTail(PipelineTail, Protocol):
    """A tail that is notified of its connection by the driver, so that no handler can keep this for itself."""

    def opened(self, pipeline: ConnectionPipeline, peer: Peer) -> None:
        """The first call, before any handler's."""
        ...

    def sending_changed(self, is_paused: bool) -> None:
        """Called as `Peer.sending_changed`."""
        ...

    def ended(self) -> None:
        """The last call, behind all handlers'."""
        ...


def checked_make(make: MakePipeline) -> MakePipeline:
    """The function itself. Raises TypeError for what cannot make handlers."""
    # Called, it would return one handler, and no list.
    kind: object = make
    if isinstance(kind, type) and issubclass(kind, PipelineHandler):
        raise TypeError(f"{kind.__name__} is a handler: write pipeline=lambda: [..., {kind.__name__}()]")
    # Handlers keep state: one list for all connections would mix their bytes.
    if not callable(make):
        hint = "a function that makes the handlers of one connection, such as lambda: [LineFrames(), Echo()]"
        raise TypeError(f"a pipeline is {hint}; this is a {type(make).__name__}")
    if inspect.iscoroutinefunction(make):
        raise TypeError(f"{make.__name__} is a coroutine function: the handlers of a connection are made at once")
    return make


class PipelineFraming:
    """The pipeline of one connection, for the reactor: a read that has an effect is one frame."""

    def __init__(
        self,
        frame_bytes_max: int,
        handlers: Sequence[PipelineHandler],
        clock: Clock,
        tail: ConnectionTail | None = None,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.failure: ProtocolError | None = None
        self.pipeline = ConnectionPipeline(handlers, clock.monotonic_ms(), tail)
        self.tail = tail
        self.fault: Exception | None = None  # of the program, while it made the handlers
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
        # A stalled pipeline asks for the HELD that stops the reading, also where the stall began outside of a read.
        has_effect = not is_same or pipeline.has_output or pipeline.is_closing or pipeline.is_stalled
        return [b""] if has_effect else []


class PipelineConnection:
    """One connection: `peer.session` of its peer."""

    def __init__(self, peer: Peer, time: DrivenTime) -> None:
        framing = cast(PipelineFraming, peer.framing)
        self.pipeline = framing.pipeline
        self._tail = framing.tail
        self._fault = framing.fault
        self._peer = peer
        self._time = time
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._is_held = False
        self._is_congested = False  # the peer does not read

    def open(self) -> None:
        # Only now there is a connection that it can end.
        if self._fault is not None:
            raise self._fault
        self._peer.sending_changed = self._sending_changed
        self.pipeline.wake = self._flush
        if self._tail is not None:
            self._tail.opened(self.pipeline, self._peer)
        self.pipeline.open(self._now_ms(), self._peer)
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
        must_wait = bool(output) and self._must_wait_for_reader()
        if not pipeline.is_stalled and not must_wait:
            return output or None
        self._is_held = True
        self._peer.push(output)
        # The reactor gives the request again once the peer has read enough; it cannot before this call returns.
        # A held pipeline wakes this side when it is released, a peer of a duplex connection when it reads again.
        if not pipeline.is_held and not must_wait:
            self._time.loop.call_soon(self._peer.release)
        return HELD

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Handlers of other connections may keep this pipeline for a while.
        self.pipeline.wake = lambda: None
        # Also where a handler fails at the end: the tail's own waits end with the connection.
        try:
            self.pipeline.end(self._now_ms())
        finally:
            if self._tail is not None and self._fault is None:
                self._tail.ended()

    def _must_wait_for_reader(self) -> bool:
        """True where even a duplex connection is not read: what it is answered would grow without bound.

        Below the bound two sides that both ask, and both do not read for a while, must not wait for each other.
        """
        return self._is_congested and self._peer.is_duplex and self._peer.unsent_bytes() >= DUPLEX_UNSENT_BYTES_MAX

    def _release_read(self) -> None:
        """Let the reactor give the held request again, if nothing holds it any more."""
        if self._is_held and not self.pipeline.is_held:
            self._peer.release()

    def _flush(self) -> None:
        """Send what was sent outside of a read: at the opening, by a timer, by another connection's handler."""
        pipeline = self.pipeline
        output = pipeline.data_to_send()
        if output:
            self._peer.push(output)
        # The close comes behind the output: the reactor sends what is ready first.
        if pipeline.is_closing:
            self._peer.close()
            return
        self._remind()
        # A `release` of a held pipeline is such a wake.
        self._release_read()

    def _remind(self) -> None:
        due_at_ms = self.pipeline.next_deadline_ms
        if self._is_stalled_alone():
            due_at_ms = self._now_ms() + RESUME_MS
        # A reminder that is set for earlier stays: it fires, and looks again.
        if due_at_ms is None or (self._timer is not None and self._timer.is_waiting and self._timer_at_ms <= due_at_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = due_at_ms
        self._timer = self._time.wheel.add(due_at_ms, self._timer_fired)

    def _is_stalled_alone(self) -> bool:
        """True for a stall that began outside of a read, so that neither the reactor nor a release resumes it."""
        return self.pipeline.is_stalled and not self._is_held and not self.pipeline.is_held

    def _timer_fired(self) -> None:
        self._timer = None
        with self._supervised():
            self.pipeline.handle_timer(self._now_ms())
            # A stall outside of a read, which is a timer that removed a framing: nobody else resumes it.
            if self._is_stalled_alone() and not self._peer.unsent_bytes():
                self.pipeline.resume(self._now_ms())
            self._flush()

    def _sending_changed(self, is_paused: bool) -> None:
        self._is_congested = is_paused
        with self._supervised():
            if self._tail is not None:
                self._tail.sending_changed(is_paused)
            self.pipeline.fire_event(SendingChanged(is_paused))
        if not is_paused:
            self._release_read()

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

    def __init__(
        self, make: MakePipeline, time: DrivenTime, make_tail: Callable[[], ConnectionTail] | None = None
    ) -> None:
        self._make = make
        self._time = time
        self._make_tail = make_tail
        self.fault: Exception | None = None  # the last of `make`

    def framing(self, frame_bytes_max: int) -> PipelineFraming:
        tail = None if self._make_tail is None else self._make_tail()
        try:
            return PipelineFraming(frame_bytes_max, self._make(), self._time.clock, tail)
        except Exception as error:  # noqa: BLE001  # raised again at the opening: it ends this connection, loudly
            failed = PipelineFraming(frame_bytes_max, [], self._time.clock, tail)
            failed.fault = self.fault = error
            return failed

    def connection_opened(self, peer: Peer) -> None:
        peer.session = PipelineConnection(peer, self._time)
        peer.session.open()

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        response: Response = peer.session.answer_read()
        return response

    def connection_closed(self, peer: Peer) -> None:
        peer.session.end()
