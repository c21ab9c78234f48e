"""The bytes that topics hold, by the request for log directories (KIP-113).

Strategy: confluent-kafka cannot send it, so the client of the pipelines does, with the same properties. Each broker is
asked for all it holds; a partition has as many bytes as its largest replica, so that copies are not counted twice.

Knows nothing of how results are shown.
"""

from typing import Any

from hutong.cli.cluster.asking import ClusterAccess
from hutong.foundation.errors import UsageError
from hutong.wire.kafka.apis.k35_describe_log_dirs import DescribeLogDirsRequest
from hutong.wire.kafka.error_codes import ErrorCode


def topic_bytes(bootstrap: str) -> dict[str, int] | str:
    """Topic → bytes of one copy of it; the reason in a sentence where the brokers do not tell."""
    try:
        access = ClusterAccess(bootstrap)
        try:
            responses = access.request_of_each(DescribeLogDirsRequest(None))
        finally:
            access.close()
    except UsageError as error:
        return str(error)
    partitions: dict[tuple[str, int], int] = {}
    for response in responses:
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return "Sizes need the right to DESCRIBE the cluster."
        _add(response, partitions)
    sizes: dict[str, int] = {}
    for (topic, _), size in partitions.items():
        sizes[topic] = sizes.get(topic, 0) + size
    return sizes


def _add(response: Any, partitions: dict[tuple[str, int], int]) -> None:
    for folder in response.results:
        for topic in folder.topics:
            for partition in topic.partitions:
                at = (topic.name, partition.partition_index)
                partitions[at] = max(partitions.get(at, 0), partition.partition_size)
