"""Access control lists of the v3 API: found, made and deleted by the same six words that Kafka's tools have.

A query that leaves a word out finds all of it, except that a deletion must say which resources, operations and
permissions it is about: an empty one would take all rights away. The library knows no ACLs of delegation tokens.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from hutong.rest.limits import CALL_S_MAX
from hutong.rest.resources import Resource, link, listed, resource
from hutong.web.answers import JSON, WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum

    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

ACLS_OF_REQUEST_MAX: Final = 1_000
NEEDED_TO_DELETE: Final = ("resource_type", "pattern_type", "operation", "permission")
_TAKES: Final = (JSON,)
# Kafka has the cluster where the library has a broker (KIP-140): one number, two names.
_CLUSTER: Final = "CLUSTER"
_RESOURCES: Final = {_CLUSTER if each is ResourceType.BROKER else each.name: each for each in ResourceType}
E = TypeVar("E", bound="Enum")


class AclBody(msgspec.Struct, frozen=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclsBody(msgspec.Struct, frozen=True):
    data: list[AclBody]


class AclsV3:
    """The routes to ACLs."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[WebRoute]:
        path = "/v3/clusters/{cluster}/acls"
        return [
            WebRoute("GET", path, self.find),
            WebRoute("POST", path, self.create, takes=_TAKES),
            WebRoute("POST", f"{path}:batch", self.create_all, takes=_TAKES),
            WebRoute("DELETE", path, self.delete),
        ]

    async def find(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        wanted = _filter(request.query)
        ask = partial(account.admin.describe_acls, wanted, request_timeout=CALL_S_MAX)
        found: Any = await self._gateway.blocking(lambda: ask().result(CALL_S_MAX))
        # librdkafka keeps a refusal of this question to itself, and finds nothing.
        if not found:
            await self._check_may_find(account)
        return json(listed("Acl", link(cluster, "acls"), _shown(cluster, found)))

    async def _check_may_find(self, account: Account) -> None:
        ask = partial(account.admin.describe_cluster, include_authorized_operations=True, request_timeout=CALL_S_MAX)
        found: Any = await self._gateway.blocking(lambda: ask().result(CALL_S_MAX))
        if AclOperation.DESCRIBE not in (found.authorized_operations or ()):
            raise WebRefusal(403, "The user may not describe the cluster.", 40301)

    async def create(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        binding = _binding(request.json(AclBody))
        await self._gateway.one(partial(account.admin.create_acls, [binding]))
        return WebAnswer(201, headers=[("Location", _path(cluster, _facts(binding)))])

    async def create_all(self, request: WebRequest) -> WebAnswer:
        """All are tried; the first that is refused is the answer."""
        account, body = await self._gateway.checked(request), request.json(AclsBody)
        if len(body.data) > ACLS_OF_REQUEST_MAX:
            raise WebRefusal(413, f"one request makes at most {ACLS_OF_REQUEST_MAX} ACLs", 41301)
        bindings = list(dict.fromkeys(map(_binding, body.data)))
        # The library takes no empty list.
        if bindings:
            await self._gateway.blocking(partial(_made, account.admin, bindings))
        return WebAnswer(201)

    async def delete(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        missing = [name for name in NEEDED_TO_DELETE if name not in request.query]
        if missing:
            raise WebRefusal(400, f"a deletion needs {', '.join(missing)} in its query; ANY is all of them", 40002)
        found: Any = await self._gateway.one(partial(account.admin.delete_acls, [_filter(request.query)]))
        return json({"data": _shown(cluster, found)})


def _made(admin: Any, bindings: list[AclBinding]) -> None:
    """Blocks. Raises KafkaException."""
    for future in admin.create_acls(bindings).values():
        future.result(CALL_S_MAX)


def _filter(query: Mapping[str, str]) -> AclBindingFilter:
    """Raises WebRefusal(400)."""
    return AclBindingFilter(
        _word(_RESOURCES, "resource_type", query.get("resource_type", "ANY")),
        query.get("resource_name"),  # type: ignore[arg-type]  # the stubs do not know that None is any
        _word(_names(ResourcePatternType), "pattern_type", query.get("pattern_type", "ANY")),
        query.get("principal"),  # type: ignore[arg-type]
        query.get("host"),  # type: ignore[arg-type]
        _word(_names(AclOperation), "operation", query.get("operation", "ANY")),
        _word(_names(AclPermissionType), "permission", query.get("permission", "ANY")),
    )


def _binding(body: AclBody) -> AclBinding:
    """Raises WebRefusal(400)."""
    given = (body.resource_type, body.pattern_type, body.operation, body.permission)
    vague = [word for word in given if word.upper() in ("ANY", "MATCH")]
    if vague:
        raise WebRefusal(400, f"an ACL that is made names one thing, and not {vague[0]}", 40002)
    return AclBinding(
        _word(_RESOURCES, "resource_type", body.resource_type),
        body.resource_name,
        _word(_names(ResourcePatternType), "pattern_type", body.pattern_type),
        body.principal,
        body.host,
        _word(_names(AclOperation), "operation", body.operation),
        _word(_names(AclPermissionType), "permission", body.permission),
    )


def _names(kind: type[E]) -> dict[str, E]:
    return {each.name: each for each in kind}


def _word(known: Mapping[str, E], name: str, given: str) -> E:
    found = known.get(given.upper())
    if found is None or found.name == "UNKNOWN":
        words = ", ".join(word for word in known if word != "UNKNOWN")
        raise WebRefusal(400, f"{given[:50]!r} is no {name}; there are {words}", 40002)
    return found


def _facts(binding: Any) -> dict[str, str]:
    is_cluster = binding.restype is ResourceType.BROKER
    return {
        "resource_type": _CLUSTER if is_cluster else binding.restype.name,
        "resource_name": binding.name,
        "pattern_type": binding.resource_pattern_type.name,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation.name,
        "permission": binding.permission_type.name,
    }


def _path(cluster: str, facts: Mapping[str, str]) -> str:
    return f"{link(cluster, 'acls')}?{urlencode(facts)}"


def _shown(cluster: str, found: list[AclBinding]) -> list[Resource]:
    shown = sorted(map(_facts, found), key=lambda facts: tuple(facts.values()))
    return [
        resource("Acl", _path(cluster, facts), f"kafka={cluster}/acl", cluster_id=cluster, **facts) for facts in shown
    ]
