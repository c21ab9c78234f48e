"""Routes of ACLs: who may do what with which topic, group or cluster.

Strategy: an ACL goes there and back as seven words, those of Kafka's tools. It is deleted by all seven, so that a
request never takes more away than the one that was shown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from hutong.console.limits import ACLS_SHOWN_MAX
from hutong.console.rights import check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.security.names import check_name
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

CLUSTER: Final = "kafka-cluster"
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,  # the library's word for the cluster
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS: Final = {"literal": ResourcePatternType.LITERAL, "prefixed": ResourcePatternType.PREFIXED}
_PERMISSIONS: Final = {"allow": AclPermissionType.ALLOW, "deny": AclPermissionType.DENY}
_OPERATIONS: Final = {
    each.name.lower(): each for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_DONE: Final = WebAnswer(204)


class AclWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ACL."""

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str = "literal"
    permission: str = "allow"
    host: str = "*"

    def bound_as(self, kind: type[Any]) -> Any:
        """As the library's binding or filter. Raises WebRefusal(400), ValueError."""
        for word in (self.principal, self.name, self.host):
            check_name(word)
        return kind(
            _known(_RESOURCES, self.resource, "resource"),
            self.name,
            _known(_PATTERNS, self.pattern, "pattern"),
            self.principal,
            self.host,
            _known(_OPERATIONS, self.operation, "operation"),
            _known(_PERMISSIONS, self.permission, "permission"),
        )


class AclPages:
    """The routes of ACLs."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        acls = "/api/security/acls"
        return [
            ConsoleRoute("GET", acls, self.list_acls),
            ConsoleRoute("GET", "/api/security/refusals", self.list_refusals),
            ConsoleRoute("POST", acls, self.create, changes="acl.create"),
            # Seven words are no path: the ACL that goes is the body.
            ConsoleRoute("POST", f"{acls}/deletion", self.delete, changes="acl.delete"),
        ]

    async def list_acls(self, request: WebRequest) -> WebAnswer:
        # librdkafka gives an empty list in the place of the brokers' refusal, be it for want of a right or of an
        # authorizer: the former would look as if there were no ACLs.
        await check_right(self._desk, request, AclOperation.DESCRIBE)
        account = await self._desk.account(request)
        anything: Any = None  # the library's stubs do not know that a filter may leave names out
        all_of_them = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )

        describe = partial(account.admin.describe_acls, all_of_them, request_timeout=CALL_S_MAX)
        found: Any = await self._desk.blocking(lambda: describe().result(CALL_S_MAX))
        shown = sorted((_words(each) for each in found), key=msgspec.structs.astuple)
        return json({"acls": shown[:ACLS_SHOWN_MAX], "truncated": len(shown) > ACLS_SHOWN_MAX})

    async def list_refusals(self, request: WebRequest) -> WebAnswer:
        if self._desk.node is None:
            raise WebRefusal(404, "This console has no node of its own, which would know whom it refused.", 40403)
        await check_right(self._desk, request, AclOperation.DESCRIBE)
        return json({"refusals": self._desk.node.refusals()})

    async def create(self, request: WebRequest) -> WebAnswer:
        account, body = await self._desk.account(request), request.json(AclWords)
        await self._desk.gateway.one(lambda: account.admin.create_acls([body.bound_as(AclBinding)]))
        await self._desk.record(request, "acl.create", body.principal, after=msgspec.to_builtins(body))
        return WebAnswer(201)

    async def delete(self, request: WebRequest) -> WebAnswer:
        account, body = await self._desk.account(request), request.json(AclWords)
        gone = await self._desk.gateway.one(lambda: account.admin.delete_acls([body.bound_as(AclBindingFilter)]))
        if not gone:
            raise WebRefusal(404, "There is no such ACL.", 40403)
        await self._desk.record(request, "acl.delete", body.principal, before=msgspec.to_builtins(body))
        return _DONE


def _known(words: dict[str, Any], word: str, what: str) -> Any:
    found = words.get(word)
    if found is None:
        raise WebRefusal(400, f"{word[:50]!r} is no {what}; there are {', '.join(words)}.", 40002)
    return found


def _words(binding: Any) -> AclWords:
    return AclWords(
        principal=binding.principal,
        operation=binding.operation.name.lower(),
        resource=_name_in(_RESOURCES, binding.restype),
        name=binding.name,
        pattern=_name_in(_PATTERNS, binding.resource_pattern_type),
        permission=_name_in(_PERMISSIONS, binding.permission_type),
        host=binding.host,
    )


def _name_in(words: dict[str, Any], value: Any) -> str:
    return next((word for word, each in words.items() if each is value), str(value.name).lower())
