"""Bounds on the number of elements in one request. A byte of a request can become an object of a hundred bytes, and
more in the response, so bytes alone do not bound the cost of a request.

Kafka has no such bound. The numbers are far above those of real clients. A request for partitions that is handled in
parts, with other connections served between them (`broker/dispatch/request_parts.py`), may name twice the partitions
that a node can have. Lists of names are in parts too, but their answers are large. Others are handled at once: their
bound keeps them well under 0.1 s (measured: 2 to 6 us for an element).

Knows nothing of what the things are.
"""

from typing import Final

ELEMENTS_MAX: Final = 10_000
LIST_ELEMENTS_MAX: Final = 20_000
PARTITION_ELEMENTS_MAX: Final = 200_000

_PARTITIONS: Final = frozenset({"ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"})
_LISTS: Final = frozenset(
    {
        "AlterConfigs",
        "ConsumerGroupDescribe",
        "CreatePartitions",
        "CreateTopics",
        "DeleteGroups",
        "DeleteTopics",
        "DescribeConfigs",
        "DescribeGroups",
        "Fetch",
        "IncrementalAlterConfigs",
        "ShareGroupDescribe",
    }
)
_OF_REQUESTS: Final = "Request"


def elements_max(message: str) -> int | None:
    """Of all arrays of one message together; None where it is no request: answers are those of brokers we chose."""
    if not message.endswith(_OF_REQUESTS):
        return None
    kind = message.removesuffix(_OF_REQUESTS)
    if kind in _PARTITIONS:
        return PARTITION_ELEMENTS_MAX
    return LIST_ELEMENTS_MAX if kind in _LISTS else ELEMENTS_MAX
