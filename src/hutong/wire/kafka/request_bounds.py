"""Bounds on the number of elements in one request. A byte of a request can become an object of a hundred bytes, and
more in the response, so bytes alone do not bound the cost of a request.

Kafka has no such bound. The numbers are far above those of real clients. A request that is handled in parts, with other
connections served between them (`broker/dispatch/request_parts.py`), may name twice the partitions that a node can
have. Others are handled at once: their bound keeps them well under 0.1 s (measured: 3 us for a partition of a Fetch,
5 to 10 of a Produce).

Knows nothing of what the things are.
"""

from typing import Final

ELEMENTS_MAX: Final = 20_000
PRODUCE_ELEMENTS_MAX: Final = 10_000
PARTITION_ELEMENTS_MAX: Final = 200_000

_IN_PARTS: Final = frozenset({"ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"})
_OF_REQUESTS: Final = "Request"


def elements_max(message: str) -> int | None:
    """Of all arrays of one message together; None where it is no request: answers are those of brokers we chose."""
    if not message.endswith(_OF_REQUESTS):
        return None
    kind = message.removesuffix(_OF_REQUESTS)
    if kind == "Produce":
        return PRODUCE_ELEMENTS_MAX
    return PARTITION_ELEMENTS_MAX if kind in _IN_PARTS else ELEMENTS_MAX
