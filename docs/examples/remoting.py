"""Remoting in one process: a server that answers, asks its client back, and hears what wants no answer.

python docs/examples/remoting.py
"""

import asyncio

import uvloop

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.server import RemotingServer
from hutong.remoting.work.driver import Executor
from hutong.runtime.loops.timers import LoopTimers
from hutong.runtime.threads.offload import ThreadOffload
from hutong.wire.rocketmq.command import Command

SUM, WHERE, LOG, SLOW = 1_001, 1_002, 1_003, 1_004


def add(command: Command, channel: Channel) -> Answer:
    """Inline: on the loop's thread, the cheapest way; it must not block."""
    numbers = [int(number) for number in command.ext()["numbers"].split("+")]
    return Command(0, body=str(sum(numbers)).encode())


def where(command: Command, channel: Channel) -> Answer:
    """Asks the client that asks, and answers later."""

    pending: Pending[ReadyAnswer] = Pending()

    def answered(answer: Command | HutongError) -> None:
        if isinstance(answer, Command):
            pending.complete(Command(0, body=b"you are in " + bytes(answer.body)))
        else:
            pending.complete(None)

    channel.invoke_then(Command(WHERE), 3_000, answered)
    return pending


def log(command: Command, channel: Channel) -> Answer:
    print("heard:", bytes(command.body).decode())
    return None


def slow(command: Command, channel: Channel) -> Answer:
    """On a thread of its own, where it may block."""
    return Command(0, body=bytes(reversed(command.body)))


async def main() -> None:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(loop, wheel, clock)
    threads = ThreadOffload(loop, 2, "slow")

    server = RemotingServer(loop, clock=clock, wheel=wheel)
    server.register(SUM, add)
    server.register(WHERE, where)
    server.register(LOG, log)
    executor = Executor("slow ones", threads, clock=clock, wheel=wheel, workers=2, queue_max=100, wait_ms_max=200)
    server.register(SLOW, slow, executor)
    host, port = await server.listen("127.0.0.1", 0)

    client = RemotingClient(loop, clock=clock, wheel=wheel)
    client.register(WHERE, lambda command, channel: Command(0, body=b"the lane"))
    address = f"{host}:{port}"
    await client.oneway(address, Command(LOG, body=b"a remark"))
    print((await client.invoke(address, Command(SUM, fields={"numbers": "1+2+3"}), 3_000)).body)
    print((await client.invoke(address, Command(WHERE))).body)
    print((await client.invoke(address, Command(SLOW, body=b"drawkcab"))).body)
    print((await client.invoke(address, Command(9_999))).remark)
    print(await asyncio.to_thread(lambda: client.invoke_sync(address, Command(SUM, fields={"numbers": "4+5"})).body))

    await client.close()
    await server.close()
    threads.close()
    timers.close()


if __name__ == "__main__":
    uvloop.run(main())
