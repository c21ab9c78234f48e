"""ShareAcknowledge (key 79, versions 1-2): hand in what became of records, without taking new ones (KIP-932).

Needs a share session that ShareFetch began: epoch 0 → INVALID_SHARE_SESSION_EPOCH; -1 ends the session, and what the
member still holds is for others. Answered once the acknowledgements are durable. Per partition: INVALID_RECORD_STATE
where the member does not hold (all of) what it speaks of, INVALID_REQUEST for what cannot be meant. Version 2 knows
type 4, which renews locks (KIP-1222). The client needs READ of the group and of each topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may
from hutong.broker.share.parts import ShareParts
from hutong.broker.share.share_requests import (
    RENEWS_FROM,
    acknowledge,
    check_caller,
    keys_of,
    name_leader,
    problem_of,
)
from hutong.broker.share.share_sessions import BEGIN_EPOCH, END_EPOCH
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.delivery.messages import Settled
from hutong.groups.share.records import PartitionKey
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k79_share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 79


def handle(
    request: ShareAcknowledgeRequest, context: RequestContext[ShareParts]
) -> ShareAcknowledgeResponse | Pending[ShareAcknowledgeResponse]:
    sessions, epoch = context.broker.share_sessions, request.share_session_epoch
    try:
        group_id, member_id = check_caller(request.group_id, request.member_id)
        if not may(context, Operation.READ, ResourceType.GROUP, group_id):
            return ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message=None)
        if epoch == BEGIN_EPOCH:
            raise Refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == END_EPOCH:
            sessions.find(group_id, member_id)
        else:
            sessions.continue_session(group_id, member_id, epoch)
    except Refused as refused:
        return ShareAcknowledgeResponse(error_code=refused.code, error_message=refused.message)
    lock_ms = context.broker.share_groups.rules_of(group_id).delivery.lock_ms
    pending = PendingInParts(ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms))
    for topic in request.topics:
        entries: list[PartitionData] = []
        pending.response.responses.append(ShareAcknowledgeTopicResponse(topic.topic_id, entries))
        for key, batches in keys_of(group_id, [topic]):
            entry = PartitionData(key.partition)
            entries.append(entry)
            _acknowledge(key, batches, entry, pending, request, context)
    if epoch == END_EPOCH:
        sessions.end(group_id, member_id)
    return pending.answer()


def _acknowledge(
    key: PartitionKey,
    batches: Sequence[object],
    entry: PartitionData,
    pending: PendingInParts[ShareAcknowledgeResponse],
    request: ShareAcknowledgeRequest,
    context: RequestContext[ShareParts],
) -> None:
    pending.expect_part()

    def settled(settle: Settled) -> None:
        entry.error_code, entry.error_message = settle.error, settle.message
        name_leader(key, entry, settle.error, pending.response, context)
        pending.settle_part()

    problem = problem_of(key, context)
    if problem is not ErrorCode.NONE:
        settled(Settled(problem))
        return
    may_renew = context.api_version >= RENEWS_FROM and request.is_renew_ack
    acknowledge(key, batches, request.member_id or "", context, may_renew=may_renew, then=settled)  # type: ignore[arg-type]
