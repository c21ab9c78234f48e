"""DescribeClientQuotas (key 48), versions 0 to 1, flexible from 1 (KIP-546).

A null name in an answer is the default of that entity type. No entries at all are answered as null.
"""

from hutong.wire.kafka.apis.shared import EntityData
from hutong.wire.kafka.schema import array, boolean, float64, int8, int16, int32, message, string, struct


@struct
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct
class ValueData:
    key: str = string()
    value: float = float64()


@struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
