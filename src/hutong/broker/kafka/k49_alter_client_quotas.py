"""AlterClientQuotas (key 49, versions 0-1): set and remove quotas of users, client ids and addresses (KIP-546).

Each entity is changed as a whole or not at all. They count from the next request on, and `connection_creation_rate` of
addresses from the next connection on. The client needs ALTER_CONFIGS of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.quotas.entities import Entity, check_quota, entity_of
from hutong.broker.rights.authorization import check_cluster
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 49


def handle(
    request: AlterClientQuotasRequest, context: RequestContext[AdminParts]
) -> AlterClientQuotasResponse | Pending[AlterClientQuotasResponse]:
    pending = PendingInParts(AlterClientQuotasResponse())
    named = Counter(_identity(entry) for entry in request.entries)

    def settle(result: EntryResult, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        pending.settle_part()

    for entry in {_identity(entry): entry for entry in request.entries}.values():
        result = EntryResult(error_message=None, entity=entry.entity)
        pending.response.entries.append(result)
        pending.expect_part()
        try:
            check_cluster(context, Operation.ALTER_CONFIGS)
            if named[_identity(entry)] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "A request names an entity once.")
            entity, changes = _checked(entry)
            if request.validate_only:
                settle(result, None)
            else:
                context.broker.admin.quotas.alter(
                    entity,
                    changes,
                    lambda outcome, result=result: settle(result, outcome),  # type: ignore[misc]
                )
        except Refused as refused:
            settle(result, refused)
    return pending.answer()


def _identity(entry: EntryData) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _checked(entry: EntryData) -> tuple[Entity, Mapping[str, float | None]]:
    """The entity and its changes. Raises Refused(INVALID_REQUEST)."""
    entity = entity_of([(part.entity_type, part.entity_name) for part in entry.entity])
    changes: dict[str, float | None] = {}
    for change in entry.ops:
        if change.key in changes:
            raise Refused(ErrorCode.INVALID_REQUEST, "A request changes a quota of an entity once.")
        if not change.remove:  # what nobody can have can be taken back, as in Kafka
            check_quota(entity, change.key, change.value)
        changes[change.key] = None if change.remove else change.value
    return entity, changes
