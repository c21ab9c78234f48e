"""Requests and sends per second between two nodes of our clustered bus: `python -m bench.bus_cluster_echo ZOOKEEPER`.

Prints one JSON line per job and window, in the form of the peers' scripts. The echoing node is a process of its own;
both are on uvloop. Requests are awaited. Sends come in bursts of `BURST`, of which the last is a request: its answer
says that all of them were handled, and begins the next burst, so that no queue is measured. `BURSTS` are under way.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import uvloop

import hutong
from bench.rpc_echo import measure

ECHO: Final = "bench.echo"
TAKE: Final = "bench.take"
BURST: Final = 1_000
BURSTS: Final = 4
TEXT: Final = "x" * 100
Figures = dict[str, Any]


def _take(message: hutong.Message) -> object:
    return None if message.reply_address is None else True


async def serve(ready: Connection, cluster: str) -> None:
    async with hutong.Node(cluster=cluster) as node:
        await node.bus.consumer(ECHO, lambda message: message.body).ready()
        await node.bus.consumer(TAKE, _take).ready()
        ready.send(True)
        await asyncio.Event().wait()


async def client(options: argparse.Namespace, server: int) -> None:
    async with hutong.Node(cluster=options.cluster) as node:
        bus = node.bus

        async def request() -> int:
            await bus.request(ECHO, TEXT)
            return 1

        async def burst() -> int:
            for _ in range(BURST - 1):
                bus.send(TAKE, TEXT)
            await bus.request(TAKE, TEXT)
            return BURST

        windows = {"request": [int(each) for each in options.windows.split(",")], "send": [BURSTS]}
        for kind, call in (("request", request), ("send", burst)):
            for window in windows[kind] if kind in options.only else ():
                figures = await measure(call, window, options.warm, options.seconds, server)
                print(json.dumps({"kind": "hutong", "case": kind, "window": window, **figures}), flush=True)


def _serve(ready: Connection, cluster: str) -> None:
    uvloop.run(serve(ready, cluster))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m bench.bus_cluster_echo", description=__doc__)
    parser.add_argument("cluster", help="as in zk://127.0.0.1:2181/bench")
    parser.add_argument("--seconds", type=int, default=5, help="samples of each figure (default %(default)s)")
    parser.add_argument("--warm", type=float, default=2, help="seconds before the first (default %(default)s)")
    parser.add_argument("--windows", default="1,64", help="unanswered requests (default %(default)s)")
    parser.add_argument("--only", default="request,send", help="the jobs (default %(default)s)")
    options = parser.parse_args(words)
    # A path of its own: the echoing node is not stopped in order, and its entry stays for a session.
    options.cluster = f"{options.cluster}/{os.getpid()}"
    spawn = multiprocessing.get_context("spawn")
    ready, there = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(there, options.cluster), daemon=True)
    server.start()
    try:
        ready.recv()
        uvloop.run(client(options, server.pid or 0))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
