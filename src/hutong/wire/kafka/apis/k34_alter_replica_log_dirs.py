"""AlterReplicaLogDirs (key 34), versions 1 to 2, flexible from 2.

Moves replicas between the log directories of one broker (KIP-113).
"""

from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.schema import INT32, array, int32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: list[int] = array(INT32)


@struct
class AlterReplicaLogDir:
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: list[PartitionErrorCode] = array(PartitionErrorCode)


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
