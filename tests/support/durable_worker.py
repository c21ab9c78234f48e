"""A process that handles the messages of a durable address and keeps a diary of it, to be killed at any moment.

`python -m tests.support.durable_worker DIARY OPTIONS`, OPTIONS being JSON: address, topic, group, and what a consumer
may be asked for. Every line of the diary is one write, so what was written before a kill is there. A message says by
itself what its handler does: {"id": 7, "fails": 2} fails twice, "kills" ends the process, "slow_ms" takes its time.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from typing import Any, Final

from hutong.bus import EventBus
from hutong.bus.durable import Order, Retry
from hutong.bus.durable.consume.machine import DurableConsumerMachine
from hutong.bus.durable.kafka import KafkaLog
from hutong.bus.durable.message import DurableMessage
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime

SESSION: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


class Diary:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str, message: DurableMessage) -> None:
        at_ms = time.time_ns() // 1_000_000
        words = (what, message.body["id"], message.attempt, message.partition, message.offset, at_ms, os.getpid())
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def handler_of(diary: Diary) -> Any:
    async def wait(message: DurableMessage) -> None:
        await asyncio.sleep(message.body["slow_ms"] / 1000)
        diary.write("handled", message)

    def handle(message: DurableMessage) -> Any:
        diary.write("begun", message)
        body = message.body
        if body.get("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if message.attempt <= body.get("fails", 0):
            diary.write("failed", message)
            raise ValueError(f"message {body['id']} does not work")
        if body.get("slow_ms"):
            return wait(message)
        diary.write("handled", message)
        return None

    return handle


def be_careless() -> None:
    """Commits what has arrived instead of what is handled: what the checker must notice."""
    honest = DurableConsumerMachine.take_commits

    def take_commits(machine: DurableConsumerMachine) -> Any:
        for partition in machine._partitions.values():
            partition.position = max(partition.position, partition.last_offset + 1)
        return honest(machine)

    DurableConsumerMachine.take_commits = take_commits  # type: ignore[method-assign, assignment]


async def main(diary: Diary, options: dict[str, Any]) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    if options.pop("careless", False):
        be_careless()
    log = KafkaLog(options.pop("address"), consumer_settings={**SESSION, **options.pop("consumer_settings", {})})
    topic = options.pop("topic")
    options["retry"] = Retry(**options.pop("retry", {}))
    options["order"] = Order(options.pop("order", "partition"))
    async with Runtime(SystemClock()) as runtime, EventBus(runtime, log=log) as bus:
        consumer = bus.consumer(f"topic:{topic}", handler_of(diary), **options)
        consumer.end_handler = stopping.set
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopping.wait()
        if consumer.failure is not None:
            raise consumer.failure


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    asyncio.run(main(Diary(sys.argv[1]), json.loads(sys.argv[2])))
