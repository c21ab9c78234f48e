"""Bounds on the number of elements in one request.

A byte of a request can become an object of a hundred bytes, and more in the response, so bytes alone do not bound the
cost of a request.

Kafka has no such bound. The numbers are far above those of real clients. A request for partitions that is handled in
parts, with other connections served between them (`broker/dispatch/request_parts.py`), may name twice the partitions
that a node can have. Lists of names are in parts too, but their answers are large. Others are handled at once: their
bound keeps them below 50 ms (measured: 1 to 4 us of CPU time for an element, 5 to 8 for those in `_COSTLY`).

Knows nothing of what the things are.
"""

from typing import Final

COSTLY_ELEMENTS_MAX: Final = 5_000
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
_COSTLY: Final = frozenset(
    {
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
    }
)
_OF_REQUESTS: Final = "Request"


def elements_max(message: str) -> int | None:
    """Return the bound of all arrays of one message together; None for an answer: we choose the brokers we ask."""
    if not message.endswith(_OF_REQUESTS):
        return None
    kind = message.removesuffix(_OF_REQUESTS)
    if kind in _PARTITIONS:
        return PARTITION_ELEMENTS_MAX
    if kind in _LISTS:
        return LIST_ELEMENTS_MAX
    return COSTLY_ELEMENTS_MAX if kind in _COSTLY else ELEMENTS_MAX
