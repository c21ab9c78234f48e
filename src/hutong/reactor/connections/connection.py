"""One connection as a sans-I/O engine: bytes in, frames to the handler, answers out in order, and when to stop reading.

Strategy: the driver feeds `receive_data` (or reads into `receive_buffer`), sends `data_to_send`, and then asks
`wants_to_read` and `is_closed`. Requests are begun until too many are in flight or too many answer bytes are unsent;
frames received beyond that wait in the backlog and the driver stops reading, so the peer feels it through TCP. Requests
answered at once count until the driver has taken the answers, and a pass ends with its time: what is left of the
backlog goes on when the other connections had theirs.

Time arrives with each event; how long a pass takes is read from the clock that the constructor is given. A timer is
only a reminder: `handle_timer` looks at what is really overdue, so that a request costs no timer. Knows nothing of
sockets, of the loop, or of what a frame means.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import islice

from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.channel import HELD, PendingResponse, RequestChannel, Response
from hutong.reactor.connections.handler import (
    Handler,
    Peer,
    do_nothing,
    drop_buffers,
    ignore_change,
    nothing_unsent,
)
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import Framing, direct_of
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

__all__ = ["Connection", "Handler", "Peer", "PendingResponse", "Response"]


JOIN_BELOW_BYTES = 2048  # mean size of buffers below which one copy costs less than one more entry in the vector


class _State(Enum):
    OPEN = 0
    DRAINING = 1  # no request is begun any more; closes once those in flight are answered
    CLOSED = 2  # the driver sends what is ready, then closes


_UNTIL_RELEASED = 1 << 62
_OPEN, _DRAINING, _CLOSED = _State  # looking a member up costs more than the rest of a test
_BY_HANDLER, _FOR_MEMORY = 1, 2  # the reasons of a hold: bits of `_holds`


def _no_time() -> int:
    """The clock of an engine that has none."""
    return 0


def _bytes_in(frames: Iterable[object]) -> int:
    """The size of a request in bytes. A framing that returns other values has bounded them itself."""
    return sum(len(frame) for frame in frames if isinstance(frame, bytes | bytearray | memoryview))


class Connection:
    """The engine of one connection. `wake` asks the driver for a pass outside of its own calls."""

    __slots__ = (
        "_backlog",
        "_channel",
        "_direct",
        "_figures",
        "_frame_begun_at_ms",
        "_frame_grew_at_ms",
        "_framing",
        "_handler",
        "_holds",
        "_is_reading",
        "_limits",
        "_now_us",
        "_queued",
        "_queued_at_ms",
        "_sending_is_paused",
        "_state",
        "_wake",
        "active_at_ms",
        "bytes_held",
        "close_reason",
        "peer",
    )

    def __init__(
        self,
        peer: Peer,
        framing: Framing,
        handler: Handler,
        limits: ReactorLimits,
        figures: ReactorFigures,
        now_ms: int,
        wake: Callable[[], None],
        now_us: Callable[[], int] = _no_time,
    ) -> None:
        """`now_us` is a monotonic clock; without one a pass has no bound in time."""
        self.peer = peer
        self.close_reason: CloseReason | None = None
        self._framing = framing
        self._direct = direct_of(framing)
        self._handler = handler
        self._limits = limits
        self._figures = figures
        self._wake = wake
        self._now_us = now_us
        self._channel = RequestChannel(wake, self._close_for_handler)
        self._backlog: deque[Buffer] | None = None  # frames received while no request may begin; made on first use
        self._queued = (0, 0)  # what of it counts in figures.queue: requests, bytes
        self._queued_at_ms = 0  # when the backlog came; what the handler held does not count as queued
        self._state = _OPEN
        self._is_reading = True  # the last answer of `wants_to_read`
        self._sending_is_paused = False
        self._holds = 0  # the holds that are not released yet
        peer.release = self._release
        peer.push = peer.send = self._push
        peer.close = self._close_for_handler
        self.active_at_ms = now_ms
        self._frame_begun_at_ms: int | None = None  # None between frames, and while this side does not read
        self._frame_grew_at_ms = now_ms  # when the unfinished frame had its last byte
        self.bytes_held = 0  # of an unfinished frame: our part of figures.receiving_bytes

    # What the driver feeds in.

    def receive_data(self, data: Buffer, now_ms: int) -> list[Buffer] | None:
        """Bytes from the peer; they are only lent.

        Usually returns None, and the driver goes on as always. Answers come back where sending them is all there is to
        do, and none of them where even that is left for later: the fast path of requests that the handler can take by
        their bytes.
        """
        figures = self._figures
        figures.bytes_received_total += len(data)
        express = self.peer.express
        # Otherwise one frame in two reads would keep all that follows it from the fast path.
        if express is not None and self._direct is not None and self.bytes_held:
            missing = self._direct.bytes_missing(data)
            if missing is not None and missing < len(data):
                self._received(self._framing.receive_data(data[:missing]), now_ms)
                data = data[missing:]
        # The fast path reads the bytes itself, so no half frame and no backlog may come before them.
        if express is not None and not self.bytes_held and not self._backlog and self._may_begin():
            channel = self._channel
            in_flight = channel.in_flight
            batch = express.take_requests(data, self._limits.requests_in_flight_max - in_flight)
            if batch is not None:
                requests, taken, response = batch
                figures.requests_total += requests
                self.active_at_ms = now_ms
                # Nothing is owed before these answers, so they need no place in the channel's order.
                if taken == len(data) and not in_flight and not isinstance(response, PendingResponse):
                    for buffer in response:
                        figures.bytes_sent_total += len(buffer)
                    return response
                # An earlier answer is missing, this one is pending, or more bytes follow: the channel keeps the order.
                channel.add_response(response, requests)
                if taken == len(data):
                    # A wait for the disk: nothing to send yet, and nothing that stops reading, so the driver need not
                    # ask. With 100 connections that ask each, a request costs a tenth less.
                    is_settled = not channel.unsent_bytes and not channel.parked_bytes and self._is_reading
                    may_begin = channel.in_flight < self._limits.requests_in_flight_max
                    return [] if is_settled and may_begin and not figures.queue.is_full else None
                data = data[taken:]
        try:
            frames = self._framing.receive_data(data)
        except ProtocolError:
            self.close(CloseReason.PROTOCOL_ERROR)
            return None
        self._received(frames, now_ms)
        return None

    def receive_buffer(self) -> memoryview | None:
        """The buffer for the driver's next read (then `buffer_received`), or None if it makes no difference."""
        return self._direct.wanted() if self._direct is not None else None

    def buffer_received(self, count: int, now_ms: int) -> None:
        """The driver put `count` bytes into the `receive_buffer`."""
        assert self._direct is not None
        self._figures.bytes_received_total += count
        self._received(self._direct.received(count), now_ms)

    def push(self, buffers: list[Buffer]) -> None:
        """Note buffers that the driver sent at once by `Peer.send`; it asks for `data_to_send` next."""
        if self._state is not _CLOSED:
            self._channel.push(buffers)

    def resume_work(self, now_ms: int) -> None:
        """Begin requests of the backlog, as many as may be."""
        if self._backlog and self._may_begin():
            backlog, self._backlog = self._backlog, None
            # What does not begin keeps the time at which it came, so that a request's queue time is not reset by each
            # pass.
            queued_at_ms = self._queued_at_ms
            self.peer.queued_ms = max(0, now_ms - queued_at_ms)
            self._begin(backlog)
            self.peer.queued_ms = 0
            # A handler that held the connection to work off its bytes in parts (HTTP) has changed what is unfinished.
            if self._framing.bytes_held != self.bytes_held and self._state is _OPEN:
                self._hold(self._framing.bytes_held, True, now_ms)
            if not self._backlog:
                self._count_queued(0, 0, now_ms)
            # While the handler holds it, a request waits for the handler's own reason, not for the processor.
            elif not self._holds & _BY_HANDLER:
                self._queued_at_ms = queued_at_ms
            self._close_if_broken()

    def pause_sending(self) -> None:
        """The driver's own buffer is full: the peer does not read."""
        self._sending_is_paused = True
        self.peer.sending_changed(True)

    def resume_sending(self, now_ms: int) -> None:
        self._sending_is_paused = False
        self.active_at_ms = now_ms
        self.peer.sending_changed(False)

    def hold(self) -> None:
        """Memory is short, and this connection is among those that hold it: begin no request until `resume`.

        Where every answer is sent, all that it holds is input. That goes by being read to its end and handled, or by
        the deadline of a frame, which runs only while it is read.
        """
        self._holds |= _FOR_MEMORY

    def resume(self) -> None:
        self._holds &= ~_FOR_MEMORY

    def drain(self) -> None:
        """Begin no more requests; close when those in flight are answered."""
        if self._state is _OPEN:
            self._state = _DRAINING
            self._backlog = None
            self._count_queued(0, 0)
            self._close_if_drained()

    def close(self, reason: CloseReason) -> None:
        """End at once; ready buffers are still sent. Everything parked under the peer's owner fails."""
        if self._state is _CLOSED:
            return
        self._state = _CLOSED
        self.close_reason = self.peer.close_reason = reason
        self._figures.closed_total[reason] += 1
        self._backlog = None
        self._count_queued(0, 0)
        # Totals over all connections: bytes of a frame that never completes would count for ever.
        if self.bytes_held:
            self._figures.change_receiving(self.peer.address, -self.bytes_held)
        self._figures.queue.change(0, -self.bytes_held)
        self.bytes_held = 0
        # The channel first: waits that end under the owner may complete answers, and those are dropped.
        self._channel.end()
        self.peer.owner.end()

    def connection_lost(self) -> None:
        """The driver's last call: the socket is gone."""
        self.close(CloseReason.PEER)
        # A handler may keep its peer for long. Without these it would keep the driver and its buffers, too.
        self._wake = self.peer.release = self.peer.close = do_nothing
        self.peer.push = self.peer.send = drop_buffers
        self.peer.sending_changed = ignore_change
        self.peer.frame_overdue = do_nothing
        self.peer.unsent_bytes = nothing_unsent
        self._handler.connection_closed(self.peer)

    # What the driver asks.

    @property
    def unsent_bytes(self) -> int:
        """Of answers and pushes that the driver has not taken."""
        return self._channel.unsent_bytes

    @property
    def answers_waiting(self) -> int:
        """Answers that wait for one to an earlier request."""
        return self._channel.waiting_count

    @property
    def memory_bytes(self) -> int:
        """All that is kept for this connection: what came and is not done, and what is not sent."""
        channel = self._channel
        return self.input_bytes + channel.unsent_bytes + channel.parked_bytes

    @property
    def input_bytes(self) -> int:
        """Bytes received and not begun: the unfinished frame and the backlog."""
        return self.bytes_held + self._queued[1] if self._backlog else self.bytes_held

    @property
    def is_closed(self) -> bool:
        """True when the driver should close the socket, after sending the ready buffers."""
        return self._state is _CLOSED

    @property
    def has_work(self) -> bool:
        """True when `resume_work` would begin a request now."""
        return bool(self._backlog) and self._may_begin()

    def data_to_send(self, now_ms: int) -> list[Buffer]:
        """The ready buffers, in order, now the driver's own. Small ones come joined, large ones as they are."""
        channel = self._channel
        # Answers behind a pending one stay in the channel, although they count as unsent.
        held = channel.held_bytes
        total = channel.unsent_bytes - held
        if held or channel.parked_bytes:
            self._figures.bytes_waiting_total += held + channel.parked_bytes
        ready = channel.take_ready()
        if ready:
            self.active_at_ms = now_ms
            self._figures.bytes_sent_total += total
            # One write of a joined buffer beats a vector of many small ones; a large one is not worth the copy.
            if len(ready) > 1 and total < JOIN_BELOW_BYTES * len(ready):
                ready = [b"".join(ready)]
        if self._state is _DRAINING:
            self._close_if_drained()
        return ready

    def wants_to_read(self, now_ms: int) -> bool:
        """True while the driver should read. Reading resumes at half the bounds at which it stopped."""
        wants = not self._backlog and self._may_begin()
        # A half frame is read even then: its bytes leave the bound only by being completed.
        if wants and self._figures.queue.is_full and not self.bytes_held:
            wants = self._figures.queue.may_read(self._wake)
        if wants is self._is_reading:
            return wants
        channel, limits = self._channel, self._limits
        # Hysteresis: without it a busy connection would pause and resume at every answer.
        if wants and (
            2 * channel.in_flight > limits.requests_in_flight_max or 2 * channel.unsent_bytes > limits.unsent_bytes_max
        ):
            return False
        self._is_reading = wants
        self._figures.reading_pauses_total += not wants
        # The peer's time for a frame does not run while this side does not read.
        self._frame_begun_at_ms = now_ms if wants and self.bytes_held else None
        self._frame_grew_at_ms = now_ms
        return wants

    def get_timer(self) -> int | None:
        """The time of the next `handle_timer`, or None once closed."""
        if self._state is _CLOSED:
            return None
        idle_at_ms = self.active_at_ms + self._limits.idle_ms_max
        frame_at_ms = self._frame_due_at_ms()
        return idle_at_ms if frame_at_ms is None else min(idle_at_ms, frame_at_ms)

    def handle_timer(self, now_ms: int) -> None:
        """Close if something is overdue; otherwise nothing happens, and `get_timer` says when to look again."""
        frame_at_ms = self._frame_due_at_ms()
        # A slow frame first: it ends a connection that sends single bytes for ever and so is never idle (slowloris).
        if frame_at_ms is not None and now_ms >= frame_at_ms:
            self.peer.frame_overdue()
            self.close(CloseReason.SLOW_SENDER)
        elif self._channel.in_flight and not self._sending_is_paused:
            self.active_at_ms = now_ms  # it waits for us, so it is not idle
        # A peer that does not read its answers gets here, too: `active_at_ms` stays while nothing is taken.
        elif now_ms >= self.active_at_ms + self._limits.idle_ms_max:
            self.close(CloseReason.IDLE)

    # What follows from it.

    def _received(self, frames: list[Buffer], now_ms: int) -> None:
        self.active_at_ms = now_ms
        framing = self._framing
        # The usual read ends with a frame, and then no account changes.
        if framing.bytes_held or self.bytes_held:
            self._hold(framing.bytes_held, bool(frames), now_ms)
        if frames:
            self._figures.requests_total += len(frames)
            # Order: nothing may overtake a request that waits.
            if self._backlog:  # the driver had read on
                self._backlog.extend(frames)
                self._queue(self._backlog, self._queued[1] + _bytes_in(frames))
            else:
                self._begin(frames)
        if framing.failure is not None:
            self._close_if_broken()

    def _hold(self, held: int, is_another_frame: bool, now_ms: int) -> None:
        """Keep account of the unfinished frame."""
        self._figures.change_receiving(self.peer.address, held - self.bytes_held)
        self._figures.queue.change(0, held - self.bytes_held, now_ms)
        self._frame_grew_at_ms = now_ms
        self.bytes_held = held
        if not held:
            self._frame_begun_at_ms = None
        # Each frame has a time of its own, even where one read ends one and begins the next.
        elif is_another_frame or self._frame_begun_at_ms is None:
            self._frame_begun_at_ms = now_ms

    def _begin(self, frames: list[Buffer] | deque[Buffer]) -> None:
        """Hand the frames to the handler; those that may not begin yet go to the backlog."""
        handle, peer, channel = self._handler.request_received, self.peer, self._channel
        in_flight_max, unsent_bytes_max = self._limits.requests_in_flight_max, self._limits.unsent_bytes_max
        begun_max = self._limits.requests_per_pass_max
        # One client's large answers end its pass early, before they fill the memory that all share.
        pass_unsent_bytes_max = min(unsent_bytes_max, channel.unsent_bytes + self._limits.answer_bytes_per_pass_max)
        now_us = self._now_us
        pass_ends_at_us = now_us() + self._limits.pass_us_max if len(frames) > 1 else 0
        begun = 0
        try:
            for frame in frames if self._may_begin() else ():
                response = handle(frame, peer)
                # The frame stays at the head of the backlog and is given again after `peer.release()`.
                if response is HELD:
                    self._holds |= _BY_HANDLER
                    break
                channel.add_response(response)
                begun += 1
                if (
                    channel.in_flight >= in_flight_max
                    or channel.unsent_bytes >= pass_unsent_bytes_max
                    # The handler may have closed the connection, or drained it by stopping the node.
                    or self._state is not _OPEN
                    or begun >= begun_max
                    or (pass_ends_at_us and now_us() >= pass_ends_at_us)
                ):
                    break
        # The answers before it are still sent: `close` keeps the ready buffers.
        except ProtocolError:
            self.close(CloseReason.PROTOCOL_ERROR)
        if begun < len(frames) and self._state is _OPEN:
            # Popping in place: copying a long backlog at each pass would make it quadratic.
            if isinstance(frames, deque):  # the backlog itself: what is left of it costs nothing
                begun_bytes = _bytes_in([frames.popleft() for _ in range(begun)])
                self._queue(frames, self._queued[1] - begun_bytes)
            else:
                backlog = deque(islice(frames, begun, None))
                self._queue(backlog, _bytes_in(backlog))

    def _queue(self, backlog: deque[Buffer], size: int) -> None:
        """Keep frames that may not be begun yet, and count their bytes."""
        is_held = bool(self._holds & _BY_HANDLER)
        # Only requests that wait for the processor count. Those of a slow reader must not stop other clients.
        waits_for_us = not self._holds and not self._sending_is_paused and not self._channel.pending_count
        self._backlog = backlog
        self._queued_at_ms = _UNTIL_RELEASED if is_held else self.active_at_ms
        self._count_queued(len(backlog) if waits_for_us else 0, size, self.active_at_ms)

    def _count_queued(self, requests: int, size: int, now_ms: int | None = None) -> None:
        """Set the number of bytes that the backlog counts for."""
        requests_before, size_before = self._queued
        self._queued = (requests, size)
        self._figures.queue.change(requests - requests_before, size - size_before, now_ms)

    def _may_begin(self) -> bool:
        channel, limits = self._channel, self._limits
        return (
            self._state is _OPEN
            and channel.in_flight < limits.requests_in_flight_max
            and channel.unsent_bytes < limits.unsent_bytes_max
            # Two duplex sides that both stopped reading would wait for each other for ever.
            and (not self._sending_is_paused or self.peer.is_duplex)
            # A hold for memory must not stop the very requests whose handling releases that memory.
            and (not self._holds or (self._holds == _FOR_MEMORY and self._holds_input_alone()))
        )

    def _holds_input_alone(self) -> bool:
        """True when received requests hold all the memory here: handling them releases it."""
        return not self._channel.in_flight and not self.peer.unsent_bytes()

    def _release(self) -> None:
        """The handler takes requests again."""
        # A handler may release twice, or for memory's hold: only its own bit goes.
        if self._holds & _BY_HANDLER:
            self._holds &= ~_BY_HANDLER
            self._wake()

    def _push(self, buffers: list[Buffer]) -> None:
        """The handler has something to say that nobody asked for."""
        if self._state is not _CLOSED:
            self._channel.push(buffers)
            self._wake()

    def _frame_due_at_ms(self) -> int | None:
        """A fixed time, and more as bytes come: a floor under the rate (the idea of Apache's mod_reqtimeout).

        What a large frame has earned is no leave to stop: without a byte for the fixed time it is over as well.
        """
        if self._frame_begun_at_ms is None:
            return None
        limits = self._limits
        # `frame_ms_max` alone would cut off a large frame on a slow link.
        earned_ms = self.bytes_held * 1000 // limits.frame_rate_min_bytes_per_s
        return min(self._frame_begun_at_ms + earned_ms, self._frame_grew_at_ms) + limits.frame_ms_max

    def _close_if_broken(self) -> None:
        """The frames before the fault are begun first, so it makes no difference how the bytes were cut up."""
        if self._framing.failure is not None and not self._backlog:
            self.close(CloseReason.PROTOCOL_ERROR)

    def _close_if_drained(self) -> None:
        if self._channel.is_empty:
            self.close(CloseReason.DRAINED)

    def _close_for_handler(self) -> None:
        self.close(CloseReason.HANDLER)
        self._wake()
