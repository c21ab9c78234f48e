"""Calls per second over a TCP connection between two processes: `python -m bench.rpc_echo`.

Prints one JSON line per job and window, in the form of the peer's script next to which `bench rpc` runs it: calls per
second (median of one-second samples after the warm-up), p50 and p99 in microseconds, and what a call cost the client's
and the server's processor. Server and client are a process each, on uvloop.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

import uvloop

import hutong
from bench.figures import cpu_seconds
from hutong.rpc import Deduplication, Delivery, connect, service

JOBS: Final = ("proxy", "call", "stream", "deduplicated")
KEPT: Final = "bench.kept"  # where a service remembers its calls
ITEMS: Final = 1_000  # of one stream
Call = Callable[[], Awaitable[int]]
"""Makes one call and says how many things came of it: one, or the items of a stream."""


@service("bench.echo")
class Echo(Protocol):
    async def echo(self, payload: bytes) -> bytes: ...

    def numbers(self, count: int) -> AsyncIterator[int]: ...


class Echoing:
    async def echo(self, payload: bytes) -> bytes:
        return payload

    async def numbers(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number


async def serve(ready: Connection, *, remembers: bool) -> None:
    async with hutong.Node(rpc="127.0.0.1:0", kafka="127.0.0.1:0" if remembers else None) as node:
        await node.rpc.bind(Echo, Echoing())
        if remembers:
            await node.rpc.bind(Echo, Echoing(), address=KEPT, deduplicate=Deduplication())
        ready.send(node.rpc_address)
        await asyncio.Event().wait()


async def measure(call: Call, window: int, warm_s: float, seconds: int, server: int) -> dict[str, Any]:
    """Keep `window` calls unanswered, each by a loop of its own, and sample how many complete."""
    latencies: list[int] = []
    things = 0

    async def again() -> None:
        nonlocal things
        while True:
            begun = time.perf_counter_ns()
            came = await call()  # before `things` is read, which others add to meanwhile
            things += came
            latencies.append(time.perf_counter_ns() - begun)

    tasks = [asyncio.ensure_future(again()) for _ in range(window)]
    await asyncio.sleep(warm_s)
    latencies.clear()
    things, rates = 0, []
    client_s, server_s = time.process_time(), cpu_seconds(server)
    for _ in range(seconds):
        count, begun_s = things, time.perf_counter()
        await asyncio.sleep(1)
        rates.append((things - count) / (time.perf_counter() - begun_s))
    client_s, server_s = time.process_time() - client_s, cpu_seconds(server) - server_s
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, asyncio.CancelledError):
            raise RuntimeError("a call failed") from outcome
    latencies.sort()
    return {
        "per_second": round(statistics.median(rates)),
        "p50_us": latencies[len(latencies) // 2] // 1000,
        "p99_us": latencies[len(latencies) * 99 // 100] // 1000,
        "client_cpu_us": round(client_s / things * 1e6, 2),
        "server_cpu_us": round(server_s / things * 1e6, 2),
        "samples": [round(rate) for rate in rates],
    }


async def client(address: str, options: argparse.Namespace, server: int) -> None:
    payload = b"x" * options.size
    async with connect(address) as rpc:
        echo = rpc.proxy(Echo)

        async def by_proxy() -> int:
            await echo.echo(payload)
            return 1

        async def by_name() -> int:
            await rpc.call("bench.echo", "echo", {"payload": payload}, result=bytes)
            return 1

        kept = rpc.proxy(Echo, address=KEPT, delivery=Delivery.DEDUPLICATED)

        async def deduplicated() -> int:
            await kept.echo(payload)
            return 1

        async def by_stream() -> int:
            count = 0
            async for _ in echo.numbers(ITEMS):
                count += 1
            return count

        jobs: dict[str, Call] = {"proxy": by_proxy, "call": by_name, "stream": by_stream, "deduplicated": deduplicated}
        for job in options.only or JOBS[:3]:
            for window in map(int, options.windows.split(",")):
                figures = await measure(jobs[job], window, options.warm, options.seconds, server)
                line = {"kind": job, "window": window, "bytes": options.size, "loop": "uvloop", **figures}
                print(json.dumps(line), flush=True)


def _serve(ready: Connection, remembers: bool = False) -> None:
    uvloop.run(serve(ready, remembers=remembers))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m bench.rpc_echo", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="samples of each figure (default %(default)s)")
    parser.add_argument("--warm", type=float, default=2, help="seconds before the first (default %(default)s)")
    parser.add_argument("--windows", default="1,64", help="unanswered calls (default %(default)s)")
    parser.add_argument("--size", type=int, default=100, help="bytes of the payload (default %(default)s)")
    parser.add_argument(
        "--only", action="append", choices=JOBS, help="this job; may be repeated; deduplicated is not among the default"
    )
    options = parser.parse_args(words)
    spawn = multiprocessing.get_context("spawn")
    ready, there = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(there, "deduplicated" in (options.only or ())), daemon=True)
    server.start()
    try:
        uvloop.run(client(ready.recv(), options, server.pid or 0))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
