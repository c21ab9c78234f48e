"""Drives connection engines from uvloop (or asyncio) transports: reads, writes, pauses, timers. Decides nothing.

Strategy: all connections of a loop read small frames through one shared buffer, large ones straight into their own.
What was answered while a chunk was worked on leaves with one write at its end; what is answered later marks the
connection, and one callback per loop iteration writes for all that are marked. Where several connections are busy,
the answers of the fast path wait for the end of the iteration as well: writes in a row wake a client once.
Knows nothing of frames or requests.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.connections.connection import Connection
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import Framing
from hutong.reactor.frames.large_reads import COUNTED_FROM_BYTES, LargeReads
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

SCRATCH_BYTES = 256 * 1024
WAKEUPS_MS_MAX = 2  # of passes in one callback; the clock is read once in each pass anyway, in milliseconds
DELAYED_MAX = 64  # connections whose answers wait for others: what that adds to the first answer is under a millisecond


class Wakeups:
    """Connections that asked for a pass; all get it in one callback of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._marked: list[ConnectionProtocol] = []
        self._delayed: list[ConnectionProtocol] = []
        self._last: ConnectionProtocol | None = None  # the last that asked to delay its answer

    def mark(self, connection: "ConnectionProtocol") -> None:
        # One callback for all that are marked, however many answers a flush of the log completes.
        if not self._marked:
            self._loop.call_soon(self._run)
        self._marked.append(connection)

    def send_together(self, connection: "ConnectionProtocol") -> None:
        """Send what this connection has delayed: now, or at the end of the loop iteration if others are busy, too.

        A write in the middle of the iteration wakes the client's thread, which runs out of work again before the next
        one. With 100 connections that wait for nothing a request costs this side 6 % less so, and the client 12 %.
        """
        # Alone it would win nothing, and pay for the callback.
        if connection is self._last:
            connection.send_delayed()
            return
        self._last = connection
        if not self._delayed:
            self._loop.call_soon(self._send_delayed)
        self._delayed.append(connection)
        if len(self._delayed) >= DELAYED_MAX:
            self._send_delayed()

    def forget(self, connection: "ConnectionProtocol") -> None:
        """Keep nothing of a connection that has ended."""
        if self._last is connection:
            self._last = None

    def _send_delayed(self) -> None:
        delayed, self._delayed = self._delayed, []
        for connection in delayed:
            try:
                connection.send_delayed()
            except Exception as error:  # noqa: BLE001  # as in `_run`: the others are answered all the same
                connection.fail(error)

    def _run(self) -> None:
        # Swapped first: a pass may mark its connection again, for the next iteration.
        marked, self._marked = self._marked, []
        ends_at_ms = 0
        for done, connection in enumerate(marked, 1):
            try:
                now_ms = connection.run_pass()
            except Exception as error:  # noqa: BLE001  # the supervisor of connections: a fault ends one, not all
                connection.fail(error)
                continue
            # A flush may complete answers of a thousand connections: reads and timers come between two parts of them.
            if not ends_at_ms:
                ends_at_ms = now_ms + WAKEUPS_MS_MAX
            elif now_ms >= ends_at_ms and done < len(marked):
                if not self._marked:
                    self._loop.call_soon(self._run)
                self._marked = marked[done:] + self._marked
                return


@dataclass(slots=True)
class AcceptorServices:
    """The services that all connections of one acceptor share."""

    loop: asyncio.AbstractEventLoop
    handler: Handler
    framing: Callable[[int], Framing]  # called with frame_bytes_max for each connection
    clock: Clock
    wheel: TimerWheel
    limits: ReactorLimits
    figures: ReactorFigures
    admit: Callable[["ConnectionProtocol"], int | None]  # the number of the new peer, or None to refuse it
    left: Callable[["ConnectionProtocol"], None]
    shed: Callable[[str | None], None]  # unfinished frames hold too much: those of an address, or all together
    check_memory: Callable[[], None]  # called after so many bytes that memory may be short
    wakeups: Wakeups = field(init=False)
    large_reads: LargeReads = field(init=False)
    scratch: memoryview = field(init=False)  # lent to one read at a time: a read and its handling are one step

    def __post_init__(self) -> None:
        self.wakeups = Wakeups(self.loop)
        self.large_reads = LargeReads(self.loop.call_soon)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))


class ConnectionProtocol(asyncio.BufferedProtocol):
    """One socket and its engine. A refused socket never gets an engine."""

    __slots__ = (
        "_around",
        "_delayed",
        "_engine",
        "_is_closing",
        "_is_direct",
        "_is_marked",
        "_is_reading",
        "_timer",
        "_timer_at_ms",
        "_transport",
        "address",
        "has_entered",
        "is_made",
    )

    _engine: Connection
    _transport: asyncio.Transport
    _timer: Timer

    def __init__(self, around: AcceptorServices) -> None:
        self._around = around
        self._is_reading = True
        self._is_direct = False  # whether the read under way goes into the engine's own buffer
        self._is_marked = False  # whether a pass is asked for already
        self._is_closing = True  # until it is admitted, and once it is closed
        self._delayed: list[Buffer] = []  # answers for the end of this loop iteration
        self._timer_at_ms = 0
        self.address = ""
        self.has_entered = False  # whether it was counted already when it was accepted
        self.is_made = False  # whether a transport has it

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_made = True
        address, port = (*(transport.get_extra_info("peername") or ("", 0)),)[:2]
        # The intake has noted the address when it accepted; a dialled connection learns it here.
        if not self.has_entered:
            self.address = address
        peer_id = self._around.admit(self)
        # Nothing was written and there is no engine, so nothing has to be flushed.
        if peer_id is None:
            self._transport.abort()
            return
        around, limits = self._around, self._around.limits
        framing = around.framing(limits.frame_bytes_max)
        peer = Peer(peer_id, self.address, port, framing)
        peer.certificate = transport.get_extra_info("peercert")
        peer.certificate_der = transport.get_extra_info("peercert_der")
        now_ms = around.clock.monotonic_ms()
        self._engine = Connection(
            peer, framing, around.handler, limits, around.figures, now_ms, self._wake, around.clock.monotonic_us
        )
        peer.send = self._send_now
        self._is_closing = False
        self._timer_at_ms = now_ms + limits.idle_ms_max
        self._timer = around.wheel.add(self._timer_at_ms, self._timer_fired)
        self._transport.set_write_buffer_limits(high=limits.unsent_bytes_max)
        # Only where it is set: a fixed size switches off the kernel's own tuning.
        if limits.send_buffer_bytes is not None or limits.receive_buffer_bytes is not None:
            _bound_kernel(transport.get_extra_info("socket"), limits)
        peer.unsent_bytes = self._unsent_bytes
        try:
            around.handler.connection_opened(peer)
        except Exception as error:  # noqa: BLE001  # the supervisor of connections: a fault ends one, not all
            self.fail(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Only inside a frame can a large one be under way, so the usual read asks nobody.
        wanted = self._engine.receive_buffer() if self._engine.bytes_held else None
        self._is_direct = wanted is not None
        return self._around.scratch if wanted is None else wanted

    def buffer_updated(self, nbytes: int) -> None:
        around, engine = self._around, self._engine
        now_ms, figures = around.clock.monotonic_ms(), around.figures
        begun_us = around.clock.monotonic_us() if nbytes >= COUNTED_FROM_BYTES else None
        if (
            figures.bytes_sent_total + figures.bytes_received_total + figures.bytes_waiting_total
            >= figures.check_at_bytes
        ):
            around.check_memory()
        # The bytes are in the frame's own buffer already: no copy from the shared one.
        if self._is_direct:
            engine.buffer_received(nbytes, now_ms)
        else:
            answers = engine.receive_data(around.scratch[:nbytes], now_ms)
            # The fast path of repeated requests: nothing else has changed, so `_settle` is not needed.
            if answers is not None:
                if answers:
                    self._delayed += answers
                    around.wakeups.send_together(self)
                if begun_us is not None:
                    around.large_reads.add(around.clock.monotonic_us() - begun_us, self)
                return
        if engine.bytes_held:
            self._remind_of_frame()
            # The bound over all protects the node; the one by address protects the other clients.
            if figures.receiving_bytes > around.limits.receiving_bytes_max:
                around.shed(None)
            elif figures.receiving_bytes_by_ip.get(self.address, 0) > around.limits.receiving_bytes_per_ip_max:
                around.shed(self.address)
        self._settle(now_ms)
        if begun_us is not None:
            around.large_reads.add(around.clock.monotonic_us() - begun_us, self)

    def eof_received(self) -> bool:
        # A half-closed connection ends as well: Kafka's server, too, closes at the end of input.
        self._engine.close(CloseReason.PEER)
        self._settle(self._around.clock.monotonic_ms())
        return False

    def pause_writing(self) -> None:
        self._engine.pause_sending()

    def resume_writing(self) -> None:
        self._engine.resume_sending(self._around.clock.monotonic_ms())
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        # It was refused in `connection_made`, so nobody knows it.
        if not hasattr(self, "_engine"):
            return
        self._is_closing = True
        self._delayed = []
        self._around.wakeups.forget(self)
        self._timer.cancel()
        if exc is not None and not isinstance(exc, OSError):
            self._engine.close(CloseReason.FAULT)  # raised by our own code below the transport, which has logged it
        # A handler may fail here as well; counted for ever, the connection would hold up every shutdown.
        try:
            self._engine.connection_lost()
        finally:
            self._around.left(self)

    # Called by the acceptor and by Wakeups.

    @property
    def peer(self) -> Peer:
        return self._engine.peer

    @property
    def bytes_held(self) -> int:
        return self._engine.bytes_held

    @property
    def active_at_ms(self) -> int:
        """The time of the last traffic."""
        return self._engine.active_at_ms

    @property
    def unread_bytes(self) -> int:
        """Bytes that were sent and that the kernel has not taken: the peer does not read them."""
        size: int = self._transport.get_write_buffer_size()
        return size

    @property
    def answers_waiting(self) -> int:
        return self._engine.answers_waiting

    @property
    def memory_bytes(self) -> int:
        """All that is kept for this connection here."""
        return self._engine.memory_bytes + self.unread_bytes

    @property
    def input_bytes(self) -> int:
        """Of that, what came and is not begun."""
        return self._engine.input_bytes

    def hold(self) -> None:
        """Begin no more requests until `resume`, and read none."""
        self._engine.hold()
        self._wake()

    def resume(self) -> None:
        self._engine.resume()
        self._wake()

    def run_pass(self) -> int:
        """Write what was answered, begin what had to wait; returns the time when it began."""
        self._is_marked = False
        now_ms = self._around.clock.monotonic_ms()
        # It may have been closed between the mark and this pass.
        if not self._is_closing:
            self._engine.resume_work(now_ms)
            self._settle(now_ms)
            figures = self._around.figures
            if (
                figures.bytes_sent_total + figures.bytes_received_total + figures.bytes_waiting_total
                >= figures.check_at_bytes
            ):
                self._around.check_memory()
        return now_ms

    def pause_large(self) -> None:
        """Read no more in this loop iteration."""
        if not self._is_closing:
            self._transport.pause_reading()

    def resume_large(self) -> None:
        """Read again, unless the engine wants no more meanwhile."""
        if self._is_reading and not self._is_closing:
            self._transport.resume_reading()

    def send_delayed(self) -> None:
        """Send the answers that waited for those of other connections, unless they are sent or lost."""
        if self._delayed:
            self._send([])

    def drain(self) -> None:
        self._engine.drain()
        self._wake()

    def abort(self, reason: CloseReason) -> None:
        """Close now; what is not sent yet is lost."""
        self._delayed = []
        self._engine.close(reason)
        self._is_closing = True
        self._transport.abort()

    def fail(self, error: Exception) -> None:
        """End this connection for a fault of ours, loudly."""
        context = {"message": f"fault while serving {self._engine.peer}", "exception": error, "protocol": self}
        self._around.loop.call_exception_handler(context)
        self.abort(CloseReason.FAULT)

    # Steps of the above.

    def _send_now(self, buffers: list[Buffer]) -> None:
        # `Peer.send` may come from a handler whose connection is gone.
        if not self._is_closing:
            self._engine.push(buffers)
            self._settle(self._around.clock.monotonic_ms())

    def _unsent_bytes(self) -> int:
        return self._engine.unsent_bytes + self._transport.get_write_buffer_size()

    def _wake(self) -> None:
        if not self._is_marked:
            self._is_marked = True
            self._around.wakeups.mark(self)

    def _settle(self, now_ms: int) -> None:
        """Do what the engine asks for after something happened."""
        if self._is_closing:
            return
        engine = self._engine
        ready = engine.data_to_send(now_ms)
        if ready:
            self._send(ready)
        wants_to_read = engine.wants_to_read(now_ms)
        # The usual end of a read: a closed engine never wants to read.
        if wants_to_read and self._is_reading:
            return
        if engine.is_closed:
            self._close_socket(now_ms)
            return
        if wants_to_read is not self._is_reading:
            self._is_reading = wants_to_read
            # The frame's time runs again from here, and may end before the reminder that is set.
            if wants_to_read:
                self._transport.resume_reading()
                self._remind_of_frame()
            else:
                self._transport.pause_reading()
        if engine.has_work:
            self._wake()

    def _send(self, buffers: list[Buffer]) -> None:
        # They answer earlier requests.
        if self._delayed:
            buffers, self._delayed = self._delayed + buffers, []
        self._around.figures.writes_total += 1
        # Most answers are one buffer, which needs no vector.
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    def _close_socket(self, now_ms: int) -> None:
        """Close once the peer has read what was written, but do not wait for that for ever."""
        self.send_delayed()
        self._is_closing = True
        self._timer.cancel()
        self._timer = self._around.wheel.add(now_ms + self._around.limits.closing_ms_max, self._transport.abort)
        self._transport.close()

    def _remind_of_frame(self) -> None:
        """An unfinished frame may be due before the reminder that is set."""
        due_at_ms = self._engine.get_timer()
        # Later reminders are not moved: the one that is set fires, and asks again.
        if due_at_ms is not None and due_at_ms < self._timer_at_ms:
            self._remind(due_at_ms)

    def _remind(self, at_ms: int) -> None:
        self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._around.wheel.add(at_ms, self._timer_fired)

    def _timer_fired(self) -> None:
        now_ms = self._around.clock.monotonic_ms()
        self._engine.handle_timer(now_ms)
        due_at_ms = self._engine.get_timer()
        if due_at_ms is not None:
            self._remind(due_at_ms)
        self._settle(now_ms)


def _bound_kernel(connection: socket.socket, limits: ReactorLimits) -> None:
    if limits.send_buffer_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    if limits.receive_buffer_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
