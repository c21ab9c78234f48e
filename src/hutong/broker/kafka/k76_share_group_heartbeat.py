"""ShareGroupHeartbeat (key 76, version 1): join a share group, stay in it, leave it (KIP-932).

Epoch 0 joins and must name the topics, -1 leaves, another one keeps the membership. Bad input → INVALID_REQUEST; a
group that is not there or of another kind → GROUP_ID_NOT_FOUND; UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH tell the
member to join again; a full group → GROUP_MAX_SIZE_REACHED. The client needs READ of the group and DESCRIBE of the
topics that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.group_rights import denial_of_heartbeat
from hutong.broker.share.parts import ShareParts
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.members.messages import ShareHeartbeat, ShareReply
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from hutong.wire.kafka.apis.shared import HeartbeatAssignment, TopicIdPartitions
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.share.assignor import TopicPartition

API_KEY = 76
_LEAVES = -1


def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext[ShareParts]
) -> ShareGroupHeartbeatResponse | Pending[ShareGroupHeartbeatResponse]:
    problem = _problem(request, context)
    if problem is not None:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
    denied = denial_of_heartbeat(request.group_id, request.subscribed_topic_names, context)
    if denied is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=denied, error_message=None)
    pending: Pending[ShareGroupHeartbeatResponse] = Pending()
    event = ShareHeartbeat(
        request.member_id,
        request.member_epoch,
        context.broker.clock.monotonic_ms(),
        context.client_id or "",
        f"/{context.session.address}",
        request.subscribed_topic_names,
        request.rack_id,
    )
    context.broker.share_groups.heartbeat(
        event,
        request.group_id,
        lambda answer: pending.complete(_response(request, answer, context)),
        holder_of(context),
    )
    return pending


def _problem(request: ShareGroupHeartbeatRequest, context: RequestContext[ShareParts]) -> str | None:
    settings = context.broker.share_groups.settings
    topics = request.subscribed_topic_names
    if not request.group_id:
        return "GroupId can't be empty."
    if not request.member_id:
        return "MemberId can't be empty."
    if request.member_epoch < _LEAVES:
        return "MemberEpoch is invalid."
    if request.rack_id == "":
        return "RackId can't be empty."
    # A member joins with epoch 0 and its subscription; later heartbeats leave out what has not changed (KIP-932).
    if request.member_epoch == 0 and not topics:
        return "SubscribedTopicNames must be set in first request."
    if max(len(request.group_id), len(request.member_id), len(request.rack_id or "")) > settings.name_bytes_max:
        return f"A name is longer than {settings.name_bytes_max}."
    if topics is not None and len(topics) > settings.subscribed_topics_max:
        return f"A member subscribes to at most {settings.subscribed_topics_max} topics here."
    return None


def _response(
    request: ShareGroupHeartbeatRequest, answer: ShareReply, context: RequestContext[ShareParts]
) -> ShareGroupHeartbeatResponse:
    if answer.error is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=answer.error, error_message=answer.message)
    rules = context.broker.share_groups.rules_of(request.group_id)
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=rules.heartbeat_interval_ms if answer.member_epoch != _LEAVES else 0,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(partitions: frozenset[TopicPartition]) -> HeartbeatAssignment:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(index)
    return HeartbeatAssignment([TopicIdPartitions(topic_id, indexes) for topic_id, indexes in by_topic.items()])
