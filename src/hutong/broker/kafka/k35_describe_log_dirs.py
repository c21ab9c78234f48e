"""DescribeLogDirs (key 35, versions 1-5): the data folder and what each partition holds there (KIP-113, KIP-827).

A node has one folder. What a partition holds is what retention counts: the bytes of its batches from its first to its
last offset, in whichever journal they lie. Unknown topics and partitions are left out, as Kafka does.
The client needs DESCRIBE of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster
from hutong.broker.topics.partition import Partition
from hutong.broker.topics.parts import TopicParts
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 35


def handle(request: DescribeLogDirsRequest, context: RequestContext[TopicParts]) -> DescribeLogDirsResponse:
    if not may_in_cluster(context, Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker = context.broker
    total_bytes, usable_bytes = broker.storage.volume_bytes()
    result = DescribeLogDirsResult(
        log_dir=broker.storage.path,
        topics=_everything(broker) if request.topics is None else _asked(request.topics, broker),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _everything(broker: TopicParts) -> list[DescribeLogDirsTopic]:
    return [DescribeLogDirsTopic(topic.name, list(map(_describe, topic.partitions))) for topic in broker.topics.all()]


def _asked(asked: list[DescribableLogDirTopic], broker: TopicParts) -> list[DescribeLogDirsTopic]:
    described = []
    for item in asked:
        found = [broker.topics.partition(item.topic, index) for index in dict.fromkeys(item.partitions)]
        partitions = [_describe(partition) for partition in found if partition is not None]
        if partitions:
            described.append(DescribeLogDirsTopic(item.topic, partitions))
    return described


def _describe(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition.index, partition.log.held_bytes, offset_lag=0)
