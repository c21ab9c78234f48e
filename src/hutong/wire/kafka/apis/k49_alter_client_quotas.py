"""AlterClientQuotas (key 49), versions 0 to 1, flexible from 1 (KIP-546).

A null name in an entity is the default of that entity type.
"""

from hutong.wire.kafka.apis.shared import EntityData
from hutong.wire.kafka.schema import array, boolean, float64, int16, int32, message, string, struct


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@struct
class EntryResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[EntryResult] = array(EntryResult)
