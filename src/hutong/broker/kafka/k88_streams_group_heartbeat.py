"""StreamsGroupHeartbeat (key 88, version 0): join, stay in, reconcile with and leave a streams group (KIP-1071).

Bad input (empty ids, a first request that says too little, an epoch below -2, tasks that there are not) →
INVALID_REQUEST; a topology that cannot be, or that reads the node's own topics → STREAMS_INVALID_TOPOLOGY; a group that
does not exist, or is of another kind and has members → GROUP_ID_NOT_FOUND. All else is the group's decision
(`groups.streams.machine`). The answer leaves when what it tells of is durable, and internal topics that were missing
have been created, or could not be.

The client needs READ of the group, DESCRIBE of the topics of its topology, and CREATE, of the cluster or the topic, for
internal topics that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.coordinators.streams_topics import create_internal_topics
from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k11_join_group import caller_of
from hutong.broker.rights.group_rights import denial_of_heartbeat
from hutong.broker.topics.internal_topics import INTERNAL_TOPICS
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.waiting.pending import Pending
from hutong.groups.streams.messages import EndpointPartitions, Holding, StreamsReply, TaskRole
from hutong.groups.streams.record_values import tasks_in
from hutong.groups.streams.topics import Status, StatusCode
from hutong.wire.kafka.apis import k88_streams_group_heartbeat as wire
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TopicPartitions,
)
from hutong.wire.kafka.apis.streams_shared import Endpoint
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 88


class StreamsParts(GroupParts, TopicParts, Protocol):
    """Groups, and the topics that a streams group creates."""


def handle(
    request: StreamsGroupHeartbeatRequest, context: RequestContext[StreamsParts]
) -> StreamsGroupHeartbeatResponse | Pending[StreamsGroupHeartbeatResponse]:
    topics = _topics_of(request)
    denied = denial_of_heartbeat(request.group_id, topics, context)
    if denied is not ErrorCode.NONE:
        return _refusal(denied, None)
    own = sorted(INTERNAL_TOPICS & topics)
    if own:
        message = f"Use of Kafka internal topics {', '.join(own)} in a Kafka Streams topology is prohibited."
        return _refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    pending: Pending[StreamsGroupHeartbeatResponse] = Pending()

    def beaten(reply: StreamsReply) -> None:
        if reply.error is ErrorCode.NONE:
            _note_member(request, context)
        if not reply.to_create:
            pending.complete(_response(reply))
            return
        create_internal_topics(
            reply.to_create, context, lambda failure: pending.complete(_response(_with_failure(reply, failure)))
        )

    context.broker.streams_groups.heartbeat(request, caller_of(context), beaten)
    return pending


def _topics_of(request: StreamsGroupHeartbeatRequest) -> set[str]:
    if request.topology is None:
        return set()
    names: set[str] = set()
    for each in request.topology.subtopologies:
        names.update(each.source_topics, each.repartition_sink_topics)
        names.update(topic.name for topic in (*each.state_changelog_topics, *each.repartition_source_topics))
    return names


def _note_member(request: StreamsGroupHeartbeatRequest, context: RequestContext[StreamsParts]) -> None:
    # A negative epoch leaves the group: fetches of this client are no longer the group's.
    if request.member_epoch < 0:
        context.broker.read_actors.forget(context.session)
    else:
        context.broker.read_actors.note_member(context, request.group_id)


def _with_failure(reply: StreamsReply, failure: str) -> StreamsReply:
    """The reply with the reason for which topics are missing still."""
    if not failure:
        return reply
    status = [
        Status(each.code, f"{each.detail}; {failure}") if each.code is StatusCode.MISSING_INTERNAL_TOPICS else each
        for each in reply.status
    ]
    return replace(reply, status=tuple(status))


def _refusal(code: ErrorCode, message: str | None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=code, error_message=message, status=None)


def _response(reply: StreamsReply) -> StreamsGroupHeartbeatResponse:
    response = StreamsGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        status=[wire.Status(each.code, each.detail) for each in reply.status] or None,
        endpoint_information_epoch=reply.endpoint_epoch,
    )
    if reply.assignment is not None:
        _put_assignment(response, reply.assignment)
    if reply.endpoints is not None:
        response.partitions_by_user_endpoint = [_endpoint(each) for each in reply.endpoints]
    return response


def _put_assignment(response: StreamsGroupHeartbeatResponse, assignment: Iterable[Holding]) -> None:
    # Clients take all three lists or none.
    response.active_tasks = tasks_in(assignment, TaskRole.ACTIVE)
    response.standby_tasks = tasks_in(assignment, TaskRole.STANDBY)
    response.warmup_tasks = []


def _endpoint(each: EndpointPartitions) -> EndpointToPartitions:
    return EndpointToPartitions(
        user_endpoint=Endpoint(*each.endpoint),
        active_partitions=[TopicPartitions(name, list(indexes)) for name, indexes in each.active.items()],
        standby_partitions=[TopicPartitions(name, list(indexes)) for name, indexes in each.standby.items()],
    )
