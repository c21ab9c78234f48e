"""Requests per second between two processes without a bus: `python -m bench.bus_cluster_floor`.

Prints JSON lines in the form of `bench.bus_cluster_echo`. Both processes are on uvloop, as there, and a request has the
size of our frames. It is awaited by a future; the echoing process answers each read with one write.
"""

import argparse
import asyncio
import json
import multiprocessing
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Final, cast

import uvloop

from bench.rpc_echo import measure

FRAME: Final = b"x" * 198
"""As many bytes as the frame of a request with 100 characters has."""


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class Requests(asyncio.Protocol):
    """Requests of one size, answered in order."""

    def __init__(self) -> None:
        self._awaited: deque[asyncio.Future[int]] = deque()
        self._bytes = 0
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        while self._bytes >= len(FRAME):
            self._bytes -= len(FRAME)
            future = self._awaited.popleft()
            # Its task was cancelled, at the end of a figure.
            if not future.done():
                future.set_result(1)

    def request(self) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = self._loop.create_future()
        self._awaited.append(future)
        self._transport.write(FRAME)
        return future


async def serve(ready: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def client(port: int, options: argparse.Namespace, server: int) -> None:
    _, requests = await asyncio.get_running_loop().create_connection(Requests, "127.0.0.1", port)

    async def request() -> int:
        return await requests.request()

    for window in [int(each) for each in options.windows.split(",")]:
        figures = await measure(request, window, options.warm, options.seconds, server)
        print(json.dumps({"kind": "floor", "case": "request", "window": window, **figures}), flush=True)


def _serve(ready: Connection) -> None:
    uvloop.run(serve(ready))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m bench.bus_cluster_floor", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="samples of each figure (default %(default)s)")
    parser.add_argument("--warm", type=float, default=2, help="seconds before the first (default %(default)s)")
    parser.add_argument("--windows", default="1,64", help="unanswered requests (default %(default)s)")
    options = parser.parse_args(words)
    spawn = multiprocessing.get_context("spawn")
    ready, there = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(there,), daemon=True)
    server.start()
    try:
        uvloop.run(client(ready.recv(), options, server.pid or 0))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
