"""AlterUserScramCredentials (key 51, version 0): set and delete users' SCRAM credentials (KIP-554).

A user is changed as a whole or not at all, so one that has anything wrong is refused, with the first fault that was
found. Connections that are authenticated already stay so, until their sessions end. The
client needs ALTER of the cluster.
"""

from __future__ import annotations

from hutong.broker.authentication.scram import ScramUsers, check_credential, check_user, mechanism_of
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.rights.authorization import check_cluster
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation
from hutong.security.sasl.scram_credentials import Mechanism
from hutong.wire.kafka.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 51


class _Changes:
    """The credentials that one user gains and loses."""

    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.removed: list[ScramCredentialDeletion] = []
        self.added: list[ScramCredentialUpsertion] = []


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext[AdminParts]
) -> AlterUserScramCredentialsResponse | Pending[AlterUserScramCredentialsResponse]:
    pending = PendingInParts(AlterUserScramCredentialsResponse())
    users: dict[str, _Changes] = {}
    for deletion in request.deletions:
        users.setdefault(deletion.name, _Changes()).removed.append(deletion)
    for upsertion in request.upsertions:
        users.setdefault(upsertion.name, _Changes()).added.append(upsertion)

    def settle(result: AlterUserScramCredentialsResult, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        pending.settle_part()

    kept = context.broker.admin.scram
    for user, changes in users.items():
        result = AlterUserScramCredentialsResult(user, error_message=None)
        pending.response.results.append(result)
        pending.expect_part()
        try:
            check_cluster(context, Operation.ALTER)
            removed = _check(user, changes, kept)
            added = {item.mechanism: (item.iterations, item.salt, item.salted_password) for item in changes.added}
            kept.change(user, removed, added, lambda outcome, result=result: settle(result, outcome))  # type: ignore[misc]
        except Refused as refused:
            settle(result, refused)
    return pending.answer()


def _check(user: str, changes: _Changes, kept: ScramUsers) -> list[Mechanism]:
    """The mechanisms whose credentials go. Raises Refused."""
    check_user(user)
    numbers = [item.mechanism for item in changes.removed] + [item.mechanism for item in changes.added]
    if len(set(numbers)) < len(numbers):
        raise Refused(ErrorCode.DUPLICATE_RESOURCE, "A request changes a credential once.")
    removed = [mechanism_of(item.mechanism) for item in changes.removed]
    for item in changes.added:
        check_credential(user, mechanism_of(item.mechanism), item.iterations, item.salt, item.salted_password)
    if not all(kept.has(user, mechanism) for mechanism in removed):
        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, "There is no such credential to delete.")
    return removed
