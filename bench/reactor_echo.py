"""The reactor alone: an echo of frames, next to a bare uvloop protocol that echoes bytes.

Strategy: the server is a process of its own, the client raw sockets here, which count bytes and check the last answer.
Kinds of server alternate turn by turn, since this machine's speed drifts; medians are printed. `later` answers every
request at the end of the loop's turn, as a journal does; `bare` has no frames, limits or timers at all.

Run it as `python -m bench.reactor_echo`.
"""

import argparse
import asyncio
import gc
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, closing, contextmanager

import uvloop

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import length_prefixed
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.buffer import Buffer

FRAME_BYTES = 150
DEPTH = 64
LARGE_BYTES = 1 << 20
IDLE_CONNECTIONS = 1000
KINDS = ("bare", "reactor", "later")
MEMORY_QUESTION = b"bytes of Python memory?"
PREFIX = struct.Struct(">i")


class Echo:
    """Answers at once; tells its memory when asked."""

    def connection_opened(self, peer: Peer) -> None:
        pass

    def connection_closed(self, peer: Peer) -> None:
        pass

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if frame == MEMORY_QUESTION:
            gc.collect()
            frame = str(tracemalloc.get_traced_memory()[0]).encode()
        return [PREFIX.pack(len(frame)), frame]


class LaterEcho(Echo):
    """Answers everything of one turn in one callback after it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[PendingResponse, Buffer]] = []

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if not self._waiting:
            self._loop.call_soon(self._answer)
        pending = PendingResponse()
        self._waiting.append((pending, frame))
        return pending

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for pending, frame in waiting:
            pending.complete([PREFIX.pack(len(frame)), frame])


class BareEcho(asyncio.Protocol):
    """The least a uvloop server can do."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]


async def serve(kind: str) -> None:
    loop = asyncio.get_running_loop()
    if kind == "bare":
        server = await loop.create_server(BareEcho, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
    else:
        clock = SystemClock()
        wheel = TimerWheel(clock.monotonic_ms())
        timers = LoopTimers(loop, wheel, clock)
        handler = LaterEcho(loop) if kind == "later" else Echo()
        acceptor = Acceptor(loop, handler, length_prefixed(), clock=clock, wheel=wheel)
        _, port = await acceptor.listen("127.0.0.1", 0)
        assert timers
    gc.collect()
    gc.freeze()
    if kind == "traced":
        tracemalloc.start()
    print(port, flush=True)
    await asyncio.Event().wait()


@contextmanager
def server(kind: str):
    command = [sys.executable, "-m", "bench.reactor_echo", "--serve", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def frame_of(size: int) -> bytes:
    return PREFIX.pack(size) + bytes(i % 251 for i in range(size))


def pipelined(port: int, seconds: float, frame: bytes, depth: int) -> tuple[int, float]:
    """Requests and seconds with `depth` frames on their way at any time."""
    with closing(connect(port)) as client:
        client.sendall(frame * depth)
        block, answer = memoryview(bytearray(1 << 18)), b""
        received = answered = 0
        burst = frame * depth
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            count = client.recv_into(block)
            received += count
            complete = received // len(frame) - answered
            answered += complete
            client.sendall(memoryview(burst)[: complete * len(frame)])
        elapsed = time.perf_counter() - began
        while received < (answered + depth) * len(frame):
            count = client.recv_into(block)
            received += count
            answer = (answer + bytes(block[:count]))[-len(frame) :]
        assert answer[-len(frame) :].endswith(frame[-len(answer) :]), "the echo differs"
        return answered, elapsed


def ping_pong(port: int, seconds: float, frame: bytes) -> tuple[int, float]:
    """Round trips and seconds, one at a time."""
    with closing(connect(port)) as client:
        block = memoryview(bytearray(len(frame)))
        count = 0
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            client.sendall(frame)
            received = 0
            while received < len(frame):
                received += client.recv_into(block[received:])
            count += 1
        assert block == frame, "the echo differs"
        return count, time.perf_counter() - began


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, to the nanosecond (`/proc/PID/stat` counts in steps of 10 ms)."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_bytes(pid: int) -> int:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def idle_memory() -> tuple[float, float]:
    """Bytes for each idle connection that has sent one request: traced Python memory, and resident memory."""
    with server("traced") as (port, _), closing(connect(port)) as asker:
        before = ask_memory(asker)
        clients = [connect(port) for _ in range(IDLE_CONNECTIONS)]
        for client in clients:
            ask_memory(client)
        traced = (ask_memory(asker) - before) / IDLE_CONNECTIONS
        for client in clients:
            client.close()
    with server("reactor") as (port, pid), closing(connect(port)) as asker:
        ask_memory(asker)
        before = resident_bytes(pid)
        clients = [connect(port) for _ in range(IDLE_CONNECTIONS)]
        ask_memory(clients[-1])
        resident = (resident_bytes(pid) - before) / IDLE_CONNECTIONS
        for client in clients:
            client.close()
    return traced, resident


def ask_memory(client: socket.socket) -> int:
    client.sendall(PREFIX.pack(len(MEMORY_QUESTION)) + MEMORY_QUESTION)
    (size,) = PREFIX.unpack(client.recv(PREFIX.size, socket.MSG_WAITALL))
    return int(client.recv(size, socket.MSG_WAITALL))


def compare(title: str, unit: str, turns: int, measure: Callable[[int], tuple[int, float]]) -> None:
    """`measure` returns requests and seconds. Prints rates, and what each request cost the server's CPU."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(server(kind)) for kind in KINDS}
        for _ in range(turns):
            for kind, (port, pid) in servers.items():
                before = cpu_seconds(pid)
                requests, seconds = measure(port)
                rates[kind].append(requests / seconds)
                costs[kind].append((cpu_seconds(pid) - before) / requests * 1e6)
    base = statistics.median(rates[KINDS[0]])
    for kind in KINDS:
        rate, cost = statistics.median(rates[kind]), statistics.median(costs[kind])
        best = max(rates[kind])
        print(f"{title:32} {kind:8} {rate:11,.0f} {unit:12} x{rate / base:.2f}  best {best:11,.0f}  {cost:8.2f} us CPU")


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.reactor_echo", description=__doc__)
    parser.add_argument("--serve", metavar="KIND", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one measurement (default: 0.3)")
    parser.add_argument("--turns", type=int, default=15, help="measurements of each kind (default: 15)")
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve))
        return
    seconds, turns = options.seconds, options.turns
    small, large = frame_of(FRAME_BYTES), frame_of(LARGE_BYTES)
    compare("ping-pong, 150 B", "round trips/s", turns, lambda port: ping_pong(port, seconds, small))
    compare(f"{DEPTH} deep, 150 B", "requests/s", turns, lambda port: pipelined(port, seconds, small, DEPTH))
    compare("2 deep, 1 MiB", "requests/s", turns, lambda port: pipelined(port, seconds, large, 2))
    traced, resident = idle_memory()
    print(f"{IDLE_CONNECTIONS} idle connections: {traced:,.0f} B of Python memory, {resident:,.0f} B resident, each")


if __name__ == "__main__":
    main()
