"""From StreamsGroupHeartbeat to a group's event: what is checked before any group is asked.

Pure. Knows the wire's messages and the settings' bounds, and nothing of groups.
"""

from hutong.foundation.errors import Refused
from hutong.groups.assigned.messages import JOINING, LEAVING_FOR_A_WHILE, NO_TIMEOUT
from hutong.groups.requests import GroupCaller
from hutong.groups.streams.core import TOPOLOGY_BYTES_PER_BYTE
from hutong.groups.streams.member import declared_bytes
from hutong.groups.streams.messages import StreamsHeartbeat, StreamsReply
from hutong.groups.streams.record_values import holdings_in
from hutong.groups.streams.settings import StreamsGroupSettings
from hutong.groups.streams.topology import Topology, problem_of
from hutong.groups.streams.wire_topology import decoded
from hutong.wire.kafka.apis import k88_streams_group_heartbeat as wire
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode


def heartbeat_error(request: StreamsGroupHeartbeatRequest, settings: StreamsGroupSettings) -> StreamsReply | None:
    """The reply to an invalid heartbeat, with Kafka's message; None for a valid one. The topology is checked apart."""
    problem = _problem(request) or _problem_of_tasks(request) or _too_long(request, settings)
    if problem:
        return StreamsReply(ErrorCode.INVALID_REQUEST, problem)
    if len(request.group_id.encode()) > settings.name_bytes_max:
        return StreamsReply(ErrorCode.INVALID_GROUP_ID, "The group id is too long.")
    return None


def _problem(request: StreamsGroupHeartbeatRequest) -> str:
    epoch = request.member_epoch
    checks = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        # Kafka 4.3 has no static members in streams groups either.
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        # What Kafka 4.3 refuses, too: none of its clients says how far its tasks are behind, so none warms up.
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (bool(request.warmup_tasks), "WarmupTasks are not supported yet."),
        (
            epoch < LEAVING_FOR_A_WHILE,
            f"MemberEpoch is {epoch}, but must be greater than or equal to {LEAVING_FOR_A_WHILE}.",
        ),
        (epoch != JOINING and request.topology is not None, "Topology can only be provided when (re-)joining."),
        (epoch == JOINING and request.topology is None, "Topology must be non-null when (re-)joining."),
        (
            epoch == JOINING and request.rebalance_timeout_ms == NO_TIMEOUT,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (epoch == JOINING and not request.process_id, "ProcessId must be provided in first request."),
    )
    return next((message for is_wrong, message in checks if is_wrong), "")


def _problem_of_tasks(request: StreamsGroupHeartbeatRequest) -> str:
    named = {
        "ActiveTasks": request.active_tasks,
        "StandbyTasks": request.standby_tasks,
        "WarmupTasks": request.warmup_tasks,
    }
    # Who joins has given everything up; tasks that it still ran could be given to others meanwhile.
    if request.member_epoch == JOINING:
        return next((f"{name} must be empty when (re-)joining." for name, tasks in named.items() if tasks != []), "")
    # One list alone would leave open whether the other tasks were given up.
    if len({tasks is None for tasks in named.values()}) > 1:
        return "If one task-type is non-null, all must be non-null."
    return ""


def _too_long(request: StreamsGroupHeartbeatRequest, settings: StreamsGroupSettings) -> str:
    """Refuse names that are too long to be stored, and more of them than a member may have."""
    # Every one of these strings is kept, and written with each change of the member.
    tags = request.client_tags or []
    if len(tags) > settings.tags_max:
        return f"A member has at most {settings.tags_max} tags."
    host = request.user_endpoint.host if request.user_endpoint is not None else None
    names = [request.member_id, request.rack_id, request.process_id, host]
    names += [word for tag in tags for word in (tag.key, tag.value)]
    if any(name is not None and len(name.encode()) > settings.name_bytes_max for name in names):
        return "A name is too long."
    return ""


def topology_of(request: StreamsGroupHeartbeatRequest, settings: StreamsGroupSettings) -> Topology | None:
    """The topology that a member brings. Raises Refused(STREAMS_INVALID_TOPOLOGY)."""
    said = request.topology
    if said is None:
        return None
    if said.epoch < 0:
        raise _invalid("The topology epoch must not be negative.")
    # Sizes first: what follows costs more than counting.
    if len(said.subtopologies) > settings.subtopologies_max:
        raise _invalid(f"A topology has at most {settings.subtopologies_max} subtopologies here.")
    if sum(map(_size_of, said.subtopologies)) > settings.topology_topics_max:
        raise _invalid(f"A topology names at most {settings.topology_topics_max} topics and settings of topics here.")
    # No client sends them: Kafka Streams refuses patterns with this protocol.
    if any(each.source_topic_regex for each in said.subtopologies):
        raise _invalid("Patterns of source topics are not supported.")
    # In its one form, in which the group compares it.
    topology = decoded(said.epoch, said.subtopologies)
    if topology.footprint_bytes > settings.topology_bytes_max:
        raise _invalid(f"A topology has at most {settings.topology_bytes_max} bytes of names and settings here.")
    problem = problem_of(topology)
    if problem:
        raise _invalid(problem)
    return topology


def _size_of(each: wire.Subtopology) -> int:
    internal = (*each.state_changelog_topics, *each.repartition_source_topics)
    groups = sum(len(group.source_topics) + len(group.repartition_source_topics) for group in each.copartition_groups)
    names = len(each.source_topics) + len(each.repartition_sink_topics) + len(internal)
    return names + groups + sum(len(topic.topic_configs) for topic in internal)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def heartbeat_event(
    request: StreamsGroupHeartbeatRequest, topology: Topology | None, caller: GroupCaller, ticket: int, now_ms: int
) -> StreamsHeartbeat:
    active, standby, endpoint, tags = (
        request.active_tasks,
        request.standby_tasks,
        request.user_endpoint,
        request.client_tags,
    )
    return StreamsHeartbeat(
        ticket=ticket,
        now_ms=now_ms,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=topology,
        owned=None if active is None or standby is None else holdings_in(active, standby),
        process_id=request.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        shuts_down=request.shutdown_application,
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def bytes_of_heartbeat(request: StreamsGroupHeartbeatRequest, topology: Topology | None, *, is_first: bool) -> int:
    """Approximate memory of what this heartbeat declares; 0 where it declares nothing new."""
    if topology is None:
        return 0
    words = [request.member_id, request.rack_id, request.process_id]
    words += [word for tag in request.client_tags or () for word in (tag.key, tag.value)]
    return declared_bytes(words) + (TOPOLOGY_BYTES_PER_BYTE * topology.footprint_bytes if is_first else 0)
