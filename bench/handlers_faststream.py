"""The contender of `bench handlers` on FastStream: `python handlers_faststream.py LIBRARY JOB BOOTSTRAP TOPIC COUNT`.

Run by the Python of an environment that has `faststream[kafka,confluent]`. Knows nothing of ours.
"""

import asyncio
import json
import sys
import time

from pydantic import BaseModel

LIBRARY, JOB, BOOTSTRAP, TOPIC = sys.argv[1:5]
COUNT = int(sys.argv[5])
if LIBRARY == "aiokafka":
    from faststream.kafka import KafkaBroker
else:
    from faststream.confluent import KafkaBroker


class Order(BaseModel):
    number: int
    customer: str
    cents: int


class Invoice(BaseModel):
    order: int
    cents: int


broker = KafkaBroker(BOOTSTRAP, log_level=50)
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


if JOB == "handle":

    @broker.subscriber(TOPIC, group_id=f"{TOPIC}-{LIBRARY}", auto_offset_reset="earliest")
    async def bill(order: Order) -> None:
        count()

else:

    @broker.publisher(f"{TOPIC}-out")
    @broker.subscriber(TOPIC, group_id=f"{TOPIC}-{LIBRARY}", auto_offset_reset="earliest")
    async def bill(order: Order) -> Invoice:
        count()
        return Invoice(order=order.number, cents=order.cents)


async def main() -> None:
    async with broker:
        await broker.start()
        await all_done.wait()
    (begun_s, begun_cpu_s), (ended_s, ended_cpu_s) = stamps
    print(json.dumps({"seconds": ended_s - begun_s, "processor_s": ended_cpu_s - begun_cpu_s}))


asyncio.run(main())
