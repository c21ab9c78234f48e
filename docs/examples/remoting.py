"""Remoting in one process: a server that answers, asks its client back, and hears what wants no answer.

python docs/examples/remoting.py
"""

import asyncio

from hutong import remoting
from hutong.foundation.errors import HutongError
from hutong.remoting import Answer, Channel, Command, Pending, ReadyAnswer
from hutong.runtime.threads.offload import ThreadOffload

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
    threads = ThreadOffload(asyncio.get_running_loop(), 2, "slow")
    async with (
        remoting.serve("127.0.0.1:0", {SUM: add, WHERE: where, LOG: log}) as server,
        remoting.connect(server.address, {WHERE: lambda command, channel: Command(0, body=b"the lane")}) as client,
    ):
        server.register(SLOW, slow, server.executor("slow ones", threads, workers=2, queue_max=100, wait=0.2))
        await client.oneway(Command(LOG, body=b"a remark"))
        print((await client.invoke(Command(SUM, fields={"numbers": "1+2+3"}), timeout=3)).body)
        print((await client.invoke(Command(WHERE))).body)
        print((await client.invoke(Command(SLOW, body=b"drawkcab"))).body)
        print((await client.invoke(Command(9_999))).remark)
        client_of_all, question = client.remoting, Command(SUM, fields={"numbers": "4+5"})
        print((await asyncio.to_thread(client_of_all.invoke_sync, server.address, question)).body)
    threads.close()


asyncio.run(main())
