"""Connections: two ends, each with what it has not sent yet and what it has not read yet.

Strategy: bytes travel as segments in order, each with the latency of its link. At most `WINDOW_BYTES` are under way or
unread at the other end; what does not fit waits at the sender, whose protocol is paused. A segment on a cut link is
sent again later. An end learns that the other is gone by a FIN (all was read), a reset, or, where the other lost its
power, not at all: until it sends something and the other host is up again, or its own patience is over.

Knows nothing of names or listening sockets.
"""

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hutong.testing.simulation.hosts.host import SimProcess
    from hutong.testing.simulation.hosts.loop import SimLoop
    from hutong.testing.simulation.network.network import SimNetwork

WINDOW_BYTES: Final = 256 * 1024
SEGMENT_BYTES_MAX: Final = 64 * 1024  # as over a loopback device
RESEND_US: Final = 200_000  # the first time, then twice as long each time (RFC 6298)
RESEND_US_MAX: Final = 5_000_000
PATIENCE_US: Final = 30_000_000  # of a sender whose segments do not arrive
HELD_LOOK_US: Final = 200  # at a link that holds what is on its way
CUT_READ_SHARE: Final = 0.05  # of reads that get a part of what is there
_HIGH_WATER_BYTES: Final = 64 * 1024


class _Mark(Enum):
    """A segment without bytes."""

    FIN = 0
    RESET = 1


_Segment = bytes | _Mark


class SimEndpoint:
    """One end of a connection; a socket to the acceptor."""

    peer: "SimEndpoint"

    def __init__(self, network: "SimNetwork", process: "SimProcess", place: tuple[str, int]) -> None:
        self.process = process
        self.place = place
        self.transport: SimTransport | None = None
        self._network = network
        self._world = network.world
        self._unsent: deque[_Segment] = deque()
        self.unsent_bytes = 0
        self._under_way: deque[tuple[int, _Segment]] = deque()  # with the time at which each arrives
        self._window_used = 0
        self._is_probing = False
        self._is_moving = False  # whether an event for the first segment under way is arranged
        self._resend_us = RESEND_US
        self._stuck_since_us: int | None = None
        self._inbox: deque[bytes] = deque()
        self._has_fin = False
        self._error: OSError | None = None
        self._is_marked = False
        self.is_gone = False  # no bytes go out of here any more
        self.is_shut = False  # none are read here any more: the protocol has heard of the end

    def pair(self, peer: "SimEndpoint") -> None:
        self.peer, peer.peer = peer, self

    # -- as a socket

    def fileno(self) -> int:
        return 6

    def setblocking(self, _: bool) -> None: ...

    def setsockopt(self, *_: object) -> None: ...

    def getsockname(self) -> tuple[str, int]:
        return self.place

    def close(self) -> None:
        """A socket that nobody attached to a transport."""
        if not self.is_gone and self.transport is None:
            self.reset()

    async def attach(self, loop: "SimLoop", protocol: asyncio.BaseProtocol) -> tuple[asyncio.Transport, Any]:
        """Give it a transport and a protocol."""
        self.transport = SimTransport(self, loop, protocol)
        protocol.connection_made(self.transport)
        self._mark()
        return self.transport, protocol

    # -- sending

    def send(self, data: bytes) -> None:
        if self.is_gone or not data:
            return
        self._unsent.append(data)
        self.unsent_bytes += len(data)
        self._pump()

    def finish(self) -> None:
        """Send a FIN after everything else."""
        if not self.is_gone:
            self._unsent.append(_Mark.FIN)
            self._pump()

    def reset(self) -> None:
        """End now, and let the other end know at once."""
        if self.is_gone:
            return
        self._go()
        self._put(_Mark.RESET)

    def owner_died(self, *, sends_reset: bool) -> None:
        """The process is gone. Without a reset, the other end hears nothing: the machine lost its power."""
        if self.is_gone:
            return
        if sends_reset:
            self.reset()
        else:
            self._go()

    def lose(self, error: OSError) -> None:
        """Let this end find out that the connection is lost."""
        self._go()
        self._error = self._error or error
        self._mark()

    def took(self, size: int) -> None:
        """The other end has read `size` bytes: after the latency of the way back more may be sent."""
        back_us = self._network.latency_us(self.peer.place[0], self.place[0])
        self._world.after(back_us, lambda: self._window_grew(size))

    def _window_grew(self, size: int) -> None:
        self._window_used -= size
        self._pump()

    def _go(self) -> None:
        self.is_gone = True
        self._unsent.clear()
        self.unsent_bytes = 0
        self._under_way.clear()
        if self.transport is None or not self.process.is_alive:
            self._network.closed(self)

    def _pump(self) -> None:
        """Send what the window has room for."""
        while self._unsent:
            first = self._unsent[0]
            if isinstance(first, bytes):
                size = min(len(first), SEGMENT_BYTES_MAX)
                if not self._has_room(size):
                    self._probe_later()
                    break
                if len(first) > size:
                    self._unsent[0], first = first[size:], first[:size]
                else:
                    self._unsent.popleft()
                self.unsent_bytes -= len(first)
                self._window_used += len(first)
            else:
                self._unsent.popleft()
            self._put(first)
        if self.transport is not None:
            self.transport.drained(self.unsent_bytes)

    def _has_room(self, size: int) -> bool:
        # A full segment or nothing: to fill each small opening makes all segments small for good, the silly window
        # syndrome (RFC 1122, 4.2.3.4). Seed 753056242 of 0.2 minutes sent 100 MB in ever smaller pieces.
        return self._window_used + size <= WINDOW_BYTES

    def _probe_later(self) -> None:
        if not self._is_probing:
            self._is_probing = True
            self._world.after(RESEND_US_MAX, self._probe)

    def _probe(self) -> None:
        """Ask a full window for room (RFC 9293, 3.8.6.1): a host that was started again knows no such connection."""
        self._is_probing = False
        if self.is_gone or not self._unsent:
            return
        place, peer = self.place[0], self.peer
        reaches = self._network.passes(place, peer.place[0]) and peer.process.host.process is not None
        if reaches and (peer.is_gone or peer.is_shut):
            self._world.after(self._network.latency_us(peer.place[0], place), lambda: self.lose(_reset_error()))
        else:
            self._probe_later()

    def _put(self, segment: _Segment) -> None:
        # Never before the segment in front: a connection keeps the order, whatever the latencies are.
        latency_us = self._network.latency_us(self.place[0], self.peer.place[0])
        after_us = self._under_way[-1][0] if self._under_way else 0
        self._under_way.append((max(self._world.now_us + latency_us, after_us), segment))
        self._move()

    def _move(self) -> None:
        if self._under_way and not self._is_moving:
            self._is_moving = True
            self._world.at(self._under_way[0][0], self._arrive)

    def _arrive(self) -> None:
        """The first segment under way reaches the other host, or is lost on the way."""
        self._is_moving = False
        if not self._under_way:
            return
        now_us = self._world.now_us
        if self._network.holds(self.place[0], self.peer.place[0]):
            self._is_moving = True
            self._world.after(HELD_LOOK_US, self._arrive)
            return
        is_lost = not self._network.passes(self.place[0], self.peer.place[0]) or self.peer.process.host.process is None
        if is_lost:
            self._resend(now_us)
            return
        self._stuck_since_us, self._resend_us = None, RESEND_US
        while self._under_way and self._under_way[0][0] <= now_us:
            segment = self._under_way.popleft()[1]
            is_unread = self.peer.is_shut and isinstance(segment, bytes)
            if is_unread or (self.peer.is_gone and segment is not _Mark.RESET):
                # The other host knows no such connection, or nobody there will ever read it (RFC 1122, 4.2.2.13).
                back_us = self._network.latency_us(self.peer.place[0], self.place[0])
                self._world.after(back_us, lambda: self.lose(_reset_error()))
                return
            self.peer.receive(segment)
        self._move()

    def _resend(self, now_us: int) -> None:
        if self._stuck_since_us is None:
            self._stuck_since_us = now_us
        if now_us - self._stuck_since_us >= PATIENCE_US:
            self.lose(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            return
        self._is_moving = True
        self._world.after(self._resend_us, self._arrive)
        self._resend_us = min(2 * self._resend_us, RESEND_US_MAX)

    # -- receiving

    def receive(self, segment: _Segment) -> None:
        if segment is _Mark.RESET:
            self._inbox.clear()
            self.lose(_reset_error())
        elif segment is _Mark.FIN:
            self._has_fin = True
            self._mark()
        elif isinstance(segment, bytes):
            self._world.digest(self.process.name, zlib.crc32(segment))
            self._inbox.append(segment)
            self._mark()

    def _mark(self) -> None:
        """Let the loop look here in its next iteration."""
        if self.transport is not None and not self._is_marked and self.process.is_alive:
            self._is_marked = True
            self.process.loop.has_arrived(self)

    def reading_resumed(self) -> None:
        if self._inbox or self._has_fin:
            self._mark()

    def arrived(self) -> None:
        """On the loop: hand to the protocol what has come."""
        self._is_marked = False
        transport = self.transport
        assert transport is not None
        # A reset wins over bytes that came before it and were not read, as in Linux.
        if self._error is not None:
            transport.lost(self._error)
            self._network.closed(self)
            return
        if not transport.is_reading_now:
            return
        if self._inbox:
            self._read(transport)
        elif self._has_fin:
            self._has_fin = False
            transport.ended()
        if self._inbox or self._has_fin:
            self._mark()

    def _read(self, transport: "SimTransport") -> None:
        data = self._inbox.popleft()
        random = self.process.host.random
        # As a kernel that has only the first packets of what was sent.
        if len(data) > 1 and random.random() < CUT_READ_SHARE:
            cut = random.randrange(1, len(data))
            self._inbox.appendleft(data[cut:])
            data = data[:cut]
        size = transport.received(data)
        if size < len(data):
            self._inbox.appendleft(data[size:])
        # A window update to a peer that is gone would count for nothing.
        if not self.peer.is_gone:
            self.peer.took(size)


class SimTransport(asyncio.Transport):
    """The transport of one end, with flow control for its protocol."""

    def __init__(self, end: SimEndpoint, loop: "SimLoop", protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": end.peer.place, "sockname": end.place, "socket": end})
        self._end = end
        self._loop = loop
        self._protocol: Any = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._high = _HIGH_WATER_BYTES
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False

    # -- the protocol's side

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._end.send(bytes(data))
            self._pause_if_full()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._end.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER_BYTES if high is None else high

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._end.reading_resumed()

    def close(self) -> None:
        """Close once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._end.finish()
            # As asyncio: a protocol hears of the end when all is sent, and may lose its patience before that.
            if not self._end.unsent_bytes:
                self._loop.call_soon(self.lost, None)

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._end.reset()
            self._loop.call_soon(self.lost, None)

    # -- the endpoint's side

    @property
    def is_reading_now(self) -> bool:
        return self._is_reading and not self._is_closing

    def received(self, data: bytes) -> int:
        """Give the protocol bytes; returns how many it took."""
        try:
            if not self._is_buffered:
                self._protocol.data_received(data)
                return len(data)
            buffer = self._protocol.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self._protocol.buffer_updated(size)
            return size
        except Exception as error:  # noqa: BLE001  # as asyncio's transports: the connection ends, loudly
            self._loop.call_exception_handler({"message": "a protocol failed", "exception": error})
            self.abort()
            return len(data)

    def ended(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    def drained(self, unsent_bytes: int) -> None:
        if self._is_paused and unsent_bytes <= self._high // 4 and not self._is_lost:
            self._is_paused = False
            self._loop.call_soon(self._protocol.resume_writing)
        if self._is_closing and not unsent_bytes:
            self._loop.call_soon(self.lost, None)

    def lost(self, error: OSError | None) -> None:
        """Tell the protocol, once."""
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._end.is_shut = True
        self._protocol.connection_lost(error)

    def _pause_if_full(self) -> None:
        if not self._is_paused and self._end.unsent_bytes > self._high:
            self._is_paused = True
            self._protocol.pause_writing()


def _reset_error() -> OSError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
