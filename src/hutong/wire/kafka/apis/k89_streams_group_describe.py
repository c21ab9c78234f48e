"""StreamsGroupDescribe (key 89), version 0, flexible from 0: topology, epochs, members and tasks (KIP-1071)."""

from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from hutong.wire.kafka.schema import STRING, array, boolean, int16, int32, message, nested, string, struct, value


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


@struct
class DescribedSubtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(STRING)
    repartition_sink_topics: list[str] = array(STRING)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


@value
class DescribedTopology:
    epoch: int = int32()
    subtopologies: list[DescribedSubtopology] | None = array(DescribedSubtopology, nullable="0+", default=None)


@value
class TaskAssignment:
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


@struct
class Member:
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: TaskAssignment = nested(TaskAssignment)
    target_assignment: TaskAssignment = nested(TaskAssignment)
    is_classic: bool = boolean()


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: DescribedTopology | None = nested(DescribedTopology, nullable="0+", default=None)
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
