"""FastStream with what docs/handlers.md compares: three retries with back-off, dead letters with their reason.

Run by the Python of an environment that has `faststream[confluent]`: `python handlers_faststream_whole.py BOOTSTRAP`.
It bills the orders of the topic "orders" until it is stopped. Compared are the lines between its two marks.
"""

# begin
import asyncio
import random
import sys

from faststream import AckPolicy, BaseMiddleware, FastStream
from faststream.confluent import KafkaBroker, KafkaMessage
from pydantic import BaseModel, ValidationError


class Order(BaseModel):
    number: int
    cents: int


class Invoice(BaseModel):
    order: int
    cents: int


class RetryThenPutAside(BaseMiddleware):
    async def consume_scope(self, call_next, msg):  # type: ignore[no-untyped-def]
        for attempt in range(1, 5):
            try:
                return await call_next(msg)
            except Exception as error:  # noqa: BLE001  # of handlers and of decoding alike
                if attempt < 4 and not isinstance(error, ValidationError):
                    await asyncio.sleep(0.1 * 2 ** (attempt - 1) * (1 - 0.2 * random.random()))
                    continue
                raw = msg.raw_message
                reason = {
                    "error-type": type(error).__name__,
                    "error-message": str(error),
                    "attempts": str(attempt),
                    "topic": raw.topic(),
                    "partition": str(raw.partition()),
                    "offset": str(raw.offset()),
                }
                await broker.publish(raw.value(), "orders.dead", key=raw.key(), headers={**msg.headers, **reason})
                return None
        return None


broker = KafkaBroker(sys.argv[1], middlewares=[RetryThenPutAside])
app = FastStream(broker)


# Published by hand: a publisher's decorator would write an empty record for what is put aside, and no key.
@broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
async def bill(order: Order, message: KafkaMessage) -> None:
    if order.cents < 0:
        raise ValueError("a negative price")
    invoice = Invoice(order=order.number, cents=order.cents)
    await broker.publish(invoice, "invoices", key=message.raw_message.key())


# end


asyncio.run(app.run())
