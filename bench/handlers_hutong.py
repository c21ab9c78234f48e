"""The contender of `bench handlers` that is ours: `python handlers_hutong.py VARIANT JOB BOOTSTRAP TOPIC COUNT`."""

import asyncio
import json
import sys
import time
from typing import Any

import msgspec
import uvloop

from hutong.handlers import App

VARIANT, JOB, BOOTSTRAP, TOPIC = sys.argv[1:5]
COUNT = int(sys.argv[5])
Model: Any = msgspec.Struct
if VARIANT == "pydantic":
    from pydantic import BaseModel

    Model = BaseModel
OPTIONS: dict[str, Any] = {"concurrency": 16} if VARIANT == "16 at a time" else {}


class Order(Model):
    number: int
    customer: str
    cents: int


class Invoice(Model):
    order: int
    cents: int


app = App(BOOTSTRAP)
stamps: list[tuple[float, float]] = []
all_done = asyncio.Event()
handled = 0


def count() -> None:
    global handled
    handled += 1
    if handled == COUNT // 10 or handled == COUNT:  # the first tenth warms up
        stamps.append((time.perf_counter(), time.process_time()))
    if handled == COUNT:
        all_done.set()


GROUP = f"{TOPIC}-{VARIANT.replace(' ', '-')}"
if JOB == "handle":

    @app.topic(TOPIC, group=GROUP, **OPTIONS)
    async def bill(order: Order) -> None:
        count()

else:
    OPTIONS["exactly_once"] = JOB == "exactly once"

    @app.topic(TOPIC, group=GROUP, to=f"{TOPIC}-out", **OPTIONS)
    async def bill(order: Order) -> Invoice:
        count()
        return Invoice(order=order.number, cents=order.cents)


async def main() -> None:
    async with app.running():
        await all_done.wait()
    (begun_s, begun_cpu_s), (ended_s, ended_cpu_s) = stamps
    print(json.dumps({"seconds": ended_s - begun_s, "processor_s": ended_cpu_s - begun_cpu_s}))


uvloop.run(main())
