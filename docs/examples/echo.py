"""An echo server on one event loop: the smallest use of the reactor.

Start it, then talk to it with `nc 127.0.0.1 7777`; Ctrl-C lets requests in flight be answered and ends it:

    python docs/examples/echo.py 7777

A reactor needs two things from its user. A *framing* says where one request ends (here: a line). A *handler* answers
requests. Neither sees a socket, and one that is slow to answer may return a `PendingResponse` and complete it later.
"""

import asyncio
import signal
import sys

import uvloop

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.buffer import Buffer

LINE_BYTES_MAX = 1000


class Lines:
    """Frames that end with a newline."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.bytes_held = 0
        self.failure: ProtocolError | None = None
        self._begun = b""

    def receive_data(self, data: Buffer) -> list[Buffer]:
        *lines, self._begun = (self._begun + data).split(b"\n")
        self.bytes_held = len(self._begun)
        if max(map(len, [*lines, self._begun])) > self.frame_bytes_max:
            self.failure = ProtocolError(f"a line has at most {self.frame_bytes_max} bytes")
            return []
        return list(lines)


class Echo:
    """Answers every line with itself."""

    def connection_opened(self, peer: Peer) -> None:
        print(f"{peer} came", flush=True)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        return [frame, b"\n"]

    def connection_closed(self, peer: Peer) -> None:
        print(f"{peer} left", flush=True)


async def main(port: int) -> None:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(loop, wheel, clock)
    limits = ReactorLimits(frame_bytes_max=LINE_BYTES_MAX, connections_max=100)
    acceptor = Acceptor(loop, Echo(), Lines, clock=clock, wheel=wheel, limits=limits)
    host, port = await acceptor.listen("127.0.0.1", port)
    print(f"echoing lines at {host}:{port}", flush=True)

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    await acceptor.drain()
    timers.close()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
