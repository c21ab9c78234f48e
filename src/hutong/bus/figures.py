"""The sizes of a bus, for metrics. Messages are not counted: that would slow down each send."""

from typing import NamedTuple


class AddressFigures(NamedTuple):
    """One address. `consumers` are those of this process, `elsewhere` those of other nodes.

    `local_only` counts the consumers that other nodes do not see, `discarded_total` messages that consumers threw away.
    """

    address: str
    consumers: int
    elsewhere: int
    local_only: int
    discarded_total: int


class BusFigures(NamedTuple):
    """`replies_awaited` counts promises of the bus: of requests, and of publishing at durable addresses.

    `unanswered_total` counts requests that had a handler, and no reply in time.
    """

    addresses: int
    consumers: int
    replies_awaited: int
    unanswered_total: int
