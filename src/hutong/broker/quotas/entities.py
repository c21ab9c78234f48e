"""The entities that quotas are set for, and the kinds of quotas.

An entity is a user, a client id, a user's client id, or an address; a name of None is the default of its type.
Which quota counts for a client is decided by the most specific entity that has one (KIP-55).

Knows nothing of rates, requests or how quotas are kept.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
CLIENT_KEYS: Final = frozenset((PRODUCE, FETCH, REQUEST, MUTATION))
IP_KEYS: Final = frozenset((CONNECTION,))
_WHOLE_MAX: Final = {PRODUCE: 2**63 - 1, FETCH: 2**63 - 1, CONNECTION: 2**31 - 1}  # quotas that are whole numbers
_NAME_CHARACTERS_MAX: Final = 1024

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, by type; each type once."""


def entity_of(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """The entity that a request names. Raises Refused(INVALID_REQUEST)."""
    found = dict(parts)
    if not found:
        raise _invalid("An entity has at least one part.")
    for kind, name in found.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"There is no entity type {kind[:100]}.")
        if name is not None and not 0 < len(name) <= _NAME_CHARACTERS_MAX:
            raise _invalid(f"The name of a {kind} has from 1 to {_NAME_CHARACTERS_MAX} characters.")
    if IP in found:
        if len(found) > 1:
            raise _invalid("A quota is for an address, or for users and client ids, not for both.")
        _check_address(found[IP])
    return tuple(sorted(found.items(), key=lambda part: part[0]))


def _check_address(name: str | None) -> None:
    try:
        if name is not None:
            ipaddress.ip_address(name)
    except ValueError:
        raise _invalid(f"{name} is not an address in numbers, such as 192.0.2.1.") from None


def check_quota(entity: Entity, key: str, value: float) -> None:
    """Check that the entity can have this quota and this value. Raises Refused(INVALID_REQUEST)."""
    known = IP_KEYS if entity[0][0] == IP else CLIENT_KEYS
    if key not in known:
        raise _invalid(f"There is no quota {key[:100]} for this entity.")
    if math.isnan(value) or value <= 0:
        raise _invalid(f"{key} must be greater than 0.")
    if key in _WHOLE_MAX:
        if value > _WHOLE_MAX[key]:
            raise _invalid(f"{key} is too large.")
        if value != int(value):
            raise _invalid(f"{key} must be a whole number.")


def text_of(entity: Entity) -> str:
    """The name under which an entity is kept."""
    return json.dumps(entity, separators=(",", ":"))


def entity_from(text: str) -> Entity:
    return tuple((kind, name) for kind, name in json.loads(text))


def candidates(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str, str]]]:
    """The entities whose quota may count for a client, the most specific first, and who shares it with the client.

    Sharers are (user, client id); an empty one means that it makes no difference.
    """
    for name in (user, None):
        yield ((CLIENT_ID, client_id), (USER, name)), (user, client_id)
        yield ((CLIENT_ID, None), (USER, name)), (user, client_id)
        yield ((USER, name),), (user, "")
    yield ((CLIENT_ID, client_id),), ("", client_id)
    yield ((CLIENT_ID, None),), ("", client_id)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
