"""The layouts of consumer groups' records: those of Kafka's `__consumer_offsets`, as tables.

Pure. `records.py` says which record has which.
"""

from hutong.wire.kafka.schema import (
    INT32,
    STRING,
    array,
    int8,
    int32,
    int64,
    message,
    nested,
    opaque,
    string,
    uuid,
    value,
)
from hutong.wire.kafka.schema import struct as table


@message(versions="0-0", flexible="0+")
class GroupValue:
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@table
class ClassicProtocol:
    name: str = string()
    metadata: bytes = opaque()


@value
class ClassicMemberMetadata:
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(versions="0-0", flexible="0+")
class MemberValue:
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic: ClassicMemberMetadata | None = nested(ClassicMemberMetadata, nullable="0+", tag=0, default=None)


@table
class TopicPartitions:
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


@message(versions="0-0", flexible="0+")
class TargetValue:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@table
class GivenPartitions:
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)
    assignment_epochs: list[int] | None = array(INT32, nullable="0+", tag=0, default=None)


@message(versions="0-0", flexible="0+")
class CurrentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[GivenPartitions] = array(GivenPartitions)
    partitions_pending_revocation: list[GivenPartitions] = array(GivenPartitions)
