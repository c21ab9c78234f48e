"""The sizes of a bus, for metrics. Messages are not counted: that would slow down each send."""

from typing import NamedTuple


class BusFigures(NamedTuple):
    """`replies_awaited` counts promises of the bus: of requests, and of publishing at durable addresses.

    `unanswered_total` counts requests that had a handler, and no reply in time.
    """

    addresses: int
    consumers: int
    replies_awaited: int
    unanswered_total: int
