"""AlterReplicaLogDirs (key 34, versions 1-2): move replicas between folders (KIP-113).

A node keeps everything in one data folder: what is to go there is there already, and there is no other.
The client needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster
from hutong.broker.topics.catalogue import why_missing
from hutong.broker.topics.parts import TopicParts
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 34


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext[TopicParts]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    is_permitted = may_in_cluster(context, Operation.ALTER)
    for folder in request.dirs:
        for asked in folder.topics:
            result = topics.setdefault(asked.name, AlterReplicaLogDirTopicResult(asked.name))
            known = {partition.partition_index for partition in result.partitions}
            result.partitions += [
                PartitionErrorCode(
                    index,
                    _outcome(folder, asked.name, index, context.broker)
                    if is_permitted
                    else ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                )
                for index in asked.partitions
                if index not in known  # Kafka answers for a partition once, whichever folders it is asked into
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _outcome(folder: AlterReplicaLogDir, topic: str, index: int, broker: TopicParts) -> ErrorCode:
    if why_missing(topic) == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if folder.path != broker.storage.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
