"""How many things one request may name. A byte of a request can become an object a hundred times its size, and one of
an answer more: bytes alone do not bound what a request costs.

Kafka has no such bound. The numbers are far above what clients do. What is handled part by part, with turns of others
between (`broker/request_parts.py`), may name all that a node can have, twice. Others are handled all at once: they may
name as many as take well under a tenth of a second (measured: 3 us for a partition of a Fetch, 5 to 10 of a Produce).

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
