"""DescribeClientQuotas (key 48, versions 0-1): which quotas are set, for whom (KIP-546).

Each component of the filter asks for one type of entity: by name, the default, or any. An entity must have them all,
and no others if the filter is strict. The client needs DESCRIBE_CONFIGS of the cluster.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.quotas.entities import ENTITY_TYPES, IP, Entity
from hutong.broker.rights.authorization import may_in_cluster
from hutong.foundation.errors import Refused
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from hutong.wire.kafka.apis.shared import EntityData
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 48
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(request: DescribeClientQuotasRequest, context: RequestContext[AdminParts]) -> DescribeClientQuotasResponse:
    if not may_in_cluster(context, Operation.DESCRIBE_CONFIGS):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=denied, error_message=None, entries=None)
    try:
        wanted = _checked(request.components)
    except Refused as refused:
        response = DescribeClientQuotasResponse(entries=None)
        put_error(response, refused)
        return response
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                [EntityData(kind, name) for kind, name in entity],
                [ValueData(key, value) for key, value in quotas.items()],
            )
            for entity, quotas in context.broker.admin.quotas.all.items()
            if _matches(entity, wanted, request.strict)
        ]
    )


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    """The components by their type. Raises Refused."""
    wanted: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise Refused(ErrorCode.INVALID_REQUEST, "A filter names a type of entity.")
        if kind in wanted:
            raise Refused(ErrorCode.INVALID_REQUEST, f"A filter names {kind[:100]} once.")
        if kind not in ENTITY_TYPES:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"There is no entity type {kind[:100]}.")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise Refused(ErrorCode.INVALID_REQUEST, f"There is no type of match {component.match_type}.")
        if (component.match is not None) is not (component.match_type == _EXACT):
            raise Refused(ErrorCode.INVALID_REQUEST, "An exact match has a name, every other has none.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "A quota is for an address, or for users and client ids.")
    return wanted


def _matches(entity: Entity, wanted: dict[str, ComponentData], strict: bool) -> bool:
    named = dict(entity)
    if strict and named.keys() != wanted.keys():
        return False
    return all(kind in named and _fits(named[kind], component) for kind, component in wanted.items())


def _fits(name: str | None, component: ComponentData) -> bool:
    return component.match_type == _ANY or name == component.match
