"""StreamsGroupHeartbeat (key 88), version 0, flexible from 0.

The one request by which members of a streams group join, stay, reconcile and leave (KIP-1071). A member that joins
sends the topology of its application.
"""

from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from hutong.wire.kafka.schema import (
    INT16,
    INT32,
    STRING,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    nested,
    string,
    struct,
    value,
)


@struct
class CopartitionGroup:
    """Indexes into the topics of its subtopology."""

    source_topics: list[int] = array(INT16)
    source_topic_regex: list[int] = array(INT16)
    repartition_source_topics: list[int] = array(INT16)


@struct
class Subtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(STRING)
    source_topic_regex: list[str] = array(STRING)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(STRING)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@value
class Topology:
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()


@struct
class Status:
    status_code: int = int8()
    status_detail: str = string()


@struct
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(INT32)


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = nested(Endpoint)
    active_partitions: list[TopicPartitions] = array(TopicPartitions)
    standby_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )
