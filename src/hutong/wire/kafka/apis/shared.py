"""Tables that several APIs share, with the same rows in each. Kafka's definitions repeat them."""

from hutong.wire.kafka.schema import INT8, INT32, array, int8, int16, int32, int64, string, struct, uuid, value


@value
class LeaderIdAndEpoch:
    """The current leader, in answers of Produce and Fetch (KIP-951)."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@value
class ShareLeader:
    """The current leader, in answers of ShareFetch and ShareAcknowledge: LeaderIdAndEpoch without defaults."""

    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class NodeEndpoint:
    """The address of a leader that an answer names (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@struct
class AcknowledgementBatch:
    """Offsets and their acknowledgements: one type for all of them, or one for each (KIP-932)."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(INT8)


@struct
class GroupTopicPartitions:
    """Partitions of one topic, in descriptions of groups (KIP-848, KIP-932)."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


@value
class GroupAssignment:
    """The assignment of one member, in descriptions of groups (KIP-848, KIP-932)."""

    topic_partitions: list[GroupTopicPartitions] = array(GroupTopicPartitions)


@struct
class AlterConfigsResourceResponse:
    """The result for one resource of AlterConfigs and IncrementalAlterConfigs (KIP-339)."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@struct
class EntityData:
    """One part of a quota's entity, such as the user (KIP-546)."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class PartitionErrorCode:
    """The result for one partition, in answers that hold nothing else of it."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TokenPrincipal:
    """An owner or renewer of delegation tokens (KIP-48)."""

    principal_type: str = string()
    principal_name: str = string()


@struct
class TopicIdPartitions:
    """Partitions of one topic by its id: owned, assigned, or no longer wanted (KIP-848, KIP-932)."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


@value
class HeartbeatAssignment:
    """The assignment that a member learns from a heartbeat (KIP-848, KIP-932)."""

    topic_partitions: list[TopicIdPartitions] = array(TopicIdPartitions)


@struct
class AcknowledgePartition:
    """Acknowledgements in one partition, in requests of ShareFetch and ShareAcknowledge (KIP-932)."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class AcknowledgeTopic:
    """Acknowledgements in one topic."""

    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)
