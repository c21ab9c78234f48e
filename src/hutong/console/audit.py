"""The audit: a record for each change that somebody made in the console.

Strategy: the change is done first, its record follows, and then the browser has its answer. A record that cannot be
written does not undo the change: it is counted and logged. Records are written by an account of the audit's own where
there is one, else by the user's.

Knows no change.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka.admin import NewTopic

from hutong.bus.durable.records import OutgoingRecord
from hutong.console.limits import AUDIT_VALUE_BYTES_MAX
from hutong.rest.records.publishing import publish
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway

TOPIC: Final = "__hutong_console_audit"
_EXISTS: Final = 400
_CONFIG: Final = {"retention.ms": str(365 * 86_400_000)}
_log: Final = logging.getLogger("hutong.console.audit")


class AuditRecord(msgspec.Struct, frozen=True):
    """`before` and `after` are what the change is about, None where there is nothing."""

    at_ms: int
    who: str
    address: str
    change: str
    target: str
    before: Any = None
    after: Any = None

    def encoded(self) -> bytes:
        """The record as JSON. A value that is too long is cut, and says so."""
        return msgspec.json.encode(
            msgspec.structs.replace(self, before=_bounded(self.before), after=_bounded(self.after))
        )


class Audit:
    """Writes records of changes to the topic, which is made when it is first written to."""

    def __init__(self, gateway: Gateway) -> None:
        self.failures_total = 0
        self._gateway = gateway
        self._has_topic = False

    async def record(self, account: Account, record: AuditRecord) -> None:
        """Write it by this account."""
        _log.info("%s at %s: %s %s", record.who, record.address, record.change, record.target)
        try:
            await self._make_topic(account)
            written = OutgoingRecord(TOPIC, record.target.encode(), record.encoded(), [])
            (outcome,) = await publish(account.publisher, [written])
        except WebRefusal as refusal:
            outcome = refusal
        if isinstance(outcome, WebRefusal):
            self.failures_total += 1
            _log.error("%s has no record of %s %s: %s", TOPIC, record.change, record.target, outcome.message)

    async def _make_topic(self, account: Account) -> None:
        if self._has_topic:
            return
        try:
            # One partition: the records of all users have one order.
            topics = [NewTopic(TOPIC, 1, config=_CONFIG)]
            await self._gateway.one(partial(account.admin.create_topics, topics))
        except WebRefusal as refusal:
            _log.debug("%s was not made: %s", TOPIC, refusal.message)
            # The next change tries again, maybe that of a user who may make it. Else it exists already.
            if refusal.status != _EXISTS:
                return
        self._has_topic = True


def _bounded(value: Any) -> Any:
    encoded = msgspec.json.encode(value)
    if len(encoded) <= AUDIT_VALUE_BYTES_MAX:
        return value
    return {"is_cut": True, "begin": encoded[:AUDIT_VALUE_BYTES_MAX].decode(errors="replace")}
