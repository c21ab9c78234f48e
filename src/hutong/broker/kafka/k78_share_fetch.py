"""ShareFetch (key 78, versions 1-2): take records for a member of a share group, and say what became of others.

The partitions asked are those of the member's share session (KIP-932); a request names what changes. Acknowledgements
are settled first, then records are taken: at once where there are any, else after up to `max_wait_ms`. Whole batches
come back, and `acquired_records` says which of their records are the member's. Version 2: with acquire mode 1 not one
record more than asked is taken (KIP-1206), and acknowledge type 4 renews a lock (KIP-1222); such a request takes none.

Session errors are those of Kafka: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
`min_bytes` counts as 1: a fetch that waits for more would hold record locks meanwhile. The client needs READ of the
group and of each topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may
from hutong.broker.share.parts import ShareParts
from hutong.broker.share.share_fetches import FoundRecords, Wish
from hutong.broker.share.share_requests import (
    RENEWS_FROM,
    acknowledge,
    check_caller,
    keys_of,
    name_leader,
    problem_of,
)
from hutong.broker.share.share_sessions import BEGIN_EPOCH, END_EPOCH, ShareSession
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.delivery.messages import Settled
from hutong.groups.share.records import PartitionKey
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k78_share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 78
STRICT_MODE: Final = 1


def handle(
    request: ShareFetchRequest, context: RequestContext[ShareParts]
) -> ShareFetchResponse | Pending[ShareFetchResponse]:
    try:
        group_id, member_id = check_caller(request.group_id, request.member_id)
        if not may(context, Operation.READ, ResourceType.GROUP, group_id):
            return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message=None)
        _check_renewal(request)
        session = _session(request, group_id, member_id, context)
    except Refused as refused:
        return ShareFetchResponse(error_code=refused.code, error_message=refused.message)
    return _Answer(request, context, session).answer()


def _check_renewal(request: ShareFetchRequest) -> None:
    if not request.is_renew_ack:
        return
    asked = {
        "MaxWaitMs": request.max_wait_ms,
        "MinBytes": request.min_bytes,
        "MaxBytes": request.max_bytes,
        "MaxRecords": request.max_records,
    }
    for name, number in asked.items():
        if number:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} must be 0 if isRenewAck is true.")


def _session(
    request: ShareFetchRequest, group_id: str, member_id: str, context: RequestContext[ShareParts]
) -> ShareSession:
    """The session after this request, or the one that it ends. Raises Refused."""
    sessions, epoch = context.broker.share_sessions, request.share_session_epoch
    wanted = list(keys_of(group_id, request.topics))
    keys = [key for key, _ in wanted]
    if epoch == END_EPOCH:
        return sessions.find(group_id, member_id)
    if epoch != BEGIN_EPOCH:
        unwanted = [
            PartitionKey(group_id, topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        return sessions.continue_session(group_id, member_id, epoch, keys, unwanted)
    # A new session has acquired nothing yet, so there is nothing to acknowledge.
    if any(batches for _, batches in wanted):
        raise Refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    return sessions.begin_session_fetch(group_id, member_id, keys, context.session, holder_of(context))


class _Answer:
    """The response in the making."""

    __slots__ = ("_context", "_entries", "_pending", "_request", "_session")

    def __init__(self, request: ShareFetchRequest, context: RequestContext[ShareParts], session: ShareSession) -> None:
        self._request = request
        self._context = context
        self._session = session
        rules = context.broker.share_groups.rules_of(session.group_id)
        self._pending = PendingInParts(ShareFetchResponse(acquisition_lock_timeout_ms=rules.delivery.lock_ms))
        self._entries: dict[PartitionKey, PartitionData] = {}

    def answer(self) -> ShareFetchResponse | Pending[ShareFetchResponse]:
        request, sessions = self._request, self._context.broker.share_sessions
        for key, batches in keys_of(self._session.group_id, request.topics):
            if batches:
                self._acknowledge(key, batches)
        if request.share_session_epoch == END_EPOCH:
            sessions.end(self._session.group_id, self._session.member_id)
        elif request.max_records > 0 and request.max_bytes > 0 and not request.is_renew_ack:
            self._fetch()
        return self._pending.answer()

    def _acknowledge(self, key: PartitionKey, batches: Sequence[object]) -> None:
        self._pending.expect_part()

        def settled(settle: Settled) -> None:
            entry = self._entry(key)
            entry.acknowledge_error_code, entry.acknowledge_error_message = settle.error, settle.message
            self._name_leader(key, entry, settle.error)
            self._pending.settle_part()

        problem = problem_of(key, self._context)
        if problem is not ErrorCode.NONE:
            settled(Settled(problem))
            return
        may_renew = self._context.api_version >= RENEWS_FROM and self._request.is_renew_ack
        acknowledge(key, batches, self._session.member_id, self._context, may_renew=may_renew, then=settled)  # type: ignore[arg-type]

    def _fetch(self) -> None:
        request, broker = self._request, self._context.broker
        keys = []
        for key in self._session.rotate():
            problem = problem_of(key, self._context)
            if problem is ErrorCode.NONE:
                keys.append(key)
                if request.share_session_epoch == BEGIN_EPOCH:
                    self._entry(key)  # the first answer names every partition, later ones those with news
            else:
                entry = self._entry(key)
                entry.error_code = problem
                self._name_leader(key, entry, problem)
        wait_ms_max = min(request.max_wait_ms, broker.settings.fetch_wait_ms_max)
        wish = Wish(
            self._session.group_id,
            self._session.member_id,
            # An error is answered at once: the client must refresh its metadata before it waits.
            wait_ms_max if len(keys) == len(self._session.partitions) else 0,
            max(0, min(request.max_bytes, broker.settings.fetch_max_bytes)),
            request.max_records,
            request.batch_size,
            request.share_acquire_mode == STRICT_MODE,
        )
        self._pending.expect_part()
        broker.share_fetches.fetch(wish, keys, self._context.session, self._fetched)

    def _fetched(self, found: dict[PartitionKey, FoundRecords]) -> None:
        for key, of_partition in found.items():
            entry = self._entry(key)
            entry.error_code, entry.error_message = of_partition.error, of_partition.message
            self._name_leader(key, entry, of_partition.error)
            entry.records = of_partition.buffers
            entry.acquired_records = [
                AcquiredRecords(each.first, each.last, each.deliveries) for each in of_partition.acquired
            ]
        self._pending.settle_part()

    def _name_leader(self, key: PartitionKey, entry: PartitionData, code: int) -> None:
        name_leader(key, entry, code, self._pending.response, self._context)

    def _entry(self, key: PartitionKey) -> PartitionData:
        """The answer's place for a partition. Its records are never null: librdkafka would fail the partition."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = PartitionData(key.partition, records=[])
            responses = self._pending.response.responses
            topic = next((each for each in responses if each.topic_id == key.topic_id), None)
            if topic is None:
                topic = ShareFetchableTopicResponse(key.topic_id, [])
                responses.append(topic)
            topic.partitions.append(entry)
        return entry
