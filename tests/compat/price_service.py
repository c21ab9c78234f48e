"""A small application on the event bus: prices are asked for by address, and changes of them come by a durable one."""

from hutong.bus.bus import EventBus
from hutong.bus.durable.consume.retry import Retry
from hutong.bus.durable.message import DurableMessage
from hutong.bus.envelope.message import Message

CHANGES = "price-changes"
GROUP = "prices"
DEAD = f"{CHANGES}.{GROUP}.dead"
NOT_FOUND = 404


class PriceService:
    """Answers at `prices.get`, tells of each change at `prices.changed`."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._prices: dict[str, int] = {}
        bus.consumer("prices.get", self._get)
        retry = Retry(attempts=3, first_delay=0.001, delay_max=0.01)
        bus.consumer(f"topic:{CHANGES}", self._change, group=GROUP, retry=retry)

    def _get(self, message: Message) -> None:
        price = self._prices.get(message.body)
        if price is None:
            message.fail(NOT_FOUND, f"no price for {message.body}")
        else:
            message.reply(price)

    async def _change(self, message: DurableMessage) -> None:
        name, price = message.body["name"], int(message.body["price"])
        self._prices[name] = price
        self._bus.publish("prices.changed", {"name": name, "price": price})
