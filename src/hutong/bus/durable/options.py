"""Options of a consumer of a durable address, and their defaults.

Knows no bus and no client library.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from hutong.bus.durable.addresses import checked_group, checked_member, dead_letter_topic, topic_of
from hutong.bus.durable.consume.messages import BUFFERED_RECORDS_MAX, HANDLING_MAX, ConsumerBounds
from hutong.bus.durable.consume.retry import Order, Retry
from hutong.foundation.errors import UsageError

RECORDS_MAX: Final = 1_000_000
HANDLERS_MAX: Final = 10_000


class DurableOptions(TypedDict, total=False):
    """The keywords of `bus.consumer("topic:...")`; docs/durable-addresses.md has them with their defaults."""

    group: str
    retry: Retry
    dead_letter: str | None
    order: Order
    start: Literal["earliest", "latest"]
    handling_max: int
    member: str


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The keywords, checked. `dead_letter` is a topic's name; None: a message that is given up stops the consumer."""

    topic: str
    group: str
    retry: Retry
    dead_letter: str | None
    order: Order
    from_latest: bool
    bounds: ConsumerBounds
    member: str | None


def checked(address: str, asked: DurableOptions, buffered_max: int = BUFFERED_RECORDS_MAX) -> ConsumerOptions:
    """Raises UsageError for what cannot be."""
    unknown = asked.keys() - DurableOptions.__annotations__.keys()
    if unknown:
        raise UsageError(f"A consumer of {address} has no option {min(unknown)!r}.")
    topic = topic_of(address)
    group = checked_group(asked.get("group"), address)
    order, start, retry = (
        asked.get("order", Order.PARTITION),
        asked.get("start", "earliest"),
        asked.get("retry", Retry()),
    )
    handling_max = asked.get("handling_max", HANDLING_MAX)
    if not isinstance(retry, Retry) or not isinstance(order, Order) or start not in ("earliest", "latest"):
        raise UsageError("retry is a Retry(...), order an Order, start 'earliest' or 'latest'.")
    if not 1 <= handling_max <= HANDLERS_MAX or not 1 <= buffered_max <= RECORDS_MAX:
        raise UsageError(
            f"handling_max is from 1 to {HANDLERS_MAX}, max_buffered_messages here from 1 to {RECORDS_MAX}."
        )
    return ConsumerOptions(
        topic=topic,
        group=group,
        retry=retry,
        dead_letter=dead_letter_topic(topic, group, asked.get("dead_letter", "")),
        order=order,
        from_latest=start == "latest",
        bounds=ConsumerBounds(handling_max, buffered_max),
        member=checked_member(asked.get("member")),
    )
