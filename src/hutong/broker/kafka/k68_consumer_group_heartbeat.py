"""ConsumerGroupHeartbeat (key 68, versions 0-1): join, stay in, reconcile with and leave a consumer group (KIP-848).

Bad input (empty ids, a first request that says too little, an epoch below -2) → INVALID_REQUEST; an assignor that is
not ours → UNSUPPORTED_ASSIGNOR; a pattern that is none → INVALID_REGULAR_EXPRESSION; a group that does not exist, or
is of another kind and has members → GROUP_ID_NOT_FOUND. All else is the group's decision (`groups.consumer.machine`).
The answer leaves when what it tells of is durable. The client needs READ of the group and DESCRIBE of the topics that
it names.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k11_join_group import caller_of
from hutong.broker.rights.authorization import may
from hutong.broker.rights.group_rights import denial_of_heartbeat
from hutong.foundation.waiting.pending import Pending
from hutong.groups.consumer.messages import HeartbeatReply, Partition
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from hutong.wire.kafka.apis.shared import HeartbeatAssignment, TopicIdPartitions
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 68


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext[GroupParts]
) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
    pending: Pending[ConsumerGroupHeartbeatResponse] = Pending()
    denied = denial_of_heartbeat(request.group_id, request.subscribed_topic_names, context)
    if denied is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=denied, error_message=None)
    groups = context.broker.consumer_groups

    def beaten(reply: HeartbeatReply) -> None:
        if reply.error is ErrorCode.NONE:
            _note_member(request, context)
        pending.complete(_response(reply, context))

    groups.heartbeat(request, caller_of(context), beaten)
    return pending


def _note_member(request: ConsumerGroupHeartbeatRequest, context: RequestContext[GroupParts]) -> None:
    # A negative epoch leaves the group: fetches of this client are no longer the group's.
    if request.member_epoch < 0:
        context.broker.read_actors.forget(context.session)
    else:
        context.broker.read_actors.note_member(context, request.group_id)


def _response(reply: HeartbeatReply, context: RequestContext[GroupParts]) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment, context),
    )


def _assignment(partitions: frozenset[Partition], context: RequestContext[GroupParts]) -> HeartbeatAssignment:
    """Leave out the topics that the member may not see: a pattern matches all topics."""
    hidden = _hidden({topic_id for topic_id, _ in partitions}, context)
    topics: dict[bytes, TopicIdPartitions] = {}
    for topic_id, index in sorted(partitions):
        if topic_id in hidden:
            continue
        topics.setdefault(topic_id, TopicIdPartitions(topic_id)).partitions.append(index)
    return HeartbeatAssignment(list(topics.values()))


def _hidden(topic_ids: set[bytes], context: RequestContext[GroupParts]) -> set[bytes]:
    if not context.broker.authorizer.is_on:
        return set()
    topics = filter(None, map(context.broker.topics.by_id, topic_ids))
    return {
        topic.topic_id
        for topic in topics
        if not may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
    }
