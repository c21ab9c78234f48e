"""How many things one request may name. A byte of a request can become an object a hundred times its size, and one of
an answer more: bytes alone do not bound what a request costs.

Kafka has no such bound. The numbers are far above what clients do: requests about partitions may name all that a node
can have, twice; others, whose elements are described at length, so many that the answer costs well under a second.

Knows nothing of what the things are.
"""

from typing import Final

ELEMENTS_MAX: Final = 20_000
PARTITION_ELEMENTS_MAX: Final = 200_000

_ABOUT_PARTITIONS: Final = frozenset(
    {
        "Produce",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetCommit",
        "OffsetFetch",
        "DeleteTopics",
        "DeleteRecords",
        "OffsetForLeaderEpoch",
        "AddPartitionsToTxn",
        "WriteTxnMarkers",
        "TxnOffsetCommit",
        "CreatePartitions",
        "OffsetDelete",
        "ConsumerGroupHeartbeat",
        "DescribeTopicPartitions",
        "ShareFetch",
        "ShareAcknowledge",
    }
)
_OF_REQUESTS: Final = "Request"


def elements_max(message: str) -> int | None:
    """Of all arrays of one message together; None where it is no request: answers are those of brokers we chose."""
    if not message.endswith(_OF_REQUESTS):
        return None
    return PARTITION_ELEMENTS_MAX if message.removesuffix(_OF_REQUESTS) in _ABOUT_PARTITIONS else ELEMENTS_MAX
