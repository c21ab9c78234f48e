"""kafka-python as another opinion: it reads what we write, and we read what it writes."""

from random import Random
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.api_message import ApiMessage
from tests.unit.wire.messages import EVERY_MESSAGE, api_of, decode, encode, fill, flat, name_of

from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsResponse
from hutong.wire.kafka.schema import Array, FixedWidth, Row, Struct, WireType, rows_of

EXAMPLES = 5
NOT_IN_KAFKA_PYTHON = {
    68: "ConsumerGroupHeartbeat: kafka-python does not speak the new group protocol (KIP-848)",
    69: "ConsumerGroupDescribe: kafka-python does not speak the new group protocol (KIP-848)",
    **dict.fromkeys((76, 77, 78, 79, 90, 91, 92), "kafka-python knows no share groups (KIP-932)"),
    **dict.fromkeys((88, 89), "kafka-python knows no streams groups (KIP-1071)"),
    **dict.fromkeys((38, 39, 40, 41), "delegation tokens: kafka-python does not speak of them"),
    **dict.fromkeys((64, 80, 81), "brokers and voters: kafka-python does not speak of them"),
    **dict.fromkeys((71, 72), "clients' metrics: kafka-python does not speak of them"),
    10_000: "an API of Hutong alone",
    10_001: "an API of Hutong alone",
}


def _schemas(base: type[Any] = ApiMessage) -> dict[str, Any]:
    found = {}
    for schema in base.__subclasses__():
        if schema.__dict__.get("_json"):
            found[schema.name] = schema
        found |= _schemas(schema)
    return found


SCHEMAS = _schemas()


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=name_of)
def test_kafka_python_agrees(message: tuple[type[Any], int]) -> None:
    table, version = message
    if api_of(table).key in NOT_IN_KAFKA_PYTHON:
        assert table.__name__ not in SCHEMAS, "kafka-python has learnt this one: compare it"
        return
    schema = SCHEMAS[table.__name__]
    for seed in range(EXAMPLES):
        ours = fill(table, version, Random(seed))
        if table is ApiVersionsResponse:
            ours.error_code = 0  # they take whatever carries an error for version 0
        theirs = schema.decode(encode(ours, version), version=version)
        assert flat_theirs(theirs, table, version) == flat(ours, version), f"seed {seed}"
        theirs._header = None
        written = bytes(theirs.encode(version=version))
        assert flat(decode(table, version, written), version) == flat(ours, version), f"seed {seed}"


def flat_theirs(container: Any, table: type[Any], version: int) -> list[Any]:
    """Their fields of this version, in the order of the schema, as our rows are."""
    rows = [row for _, row in rows_of(table) if version in row.versions]
    names = [field.name for field in container._struct._fields if field.for_version_q(version)]
    return [_plain_row(getattr(container, name), row, version) for name, row in zip(names, rows, strict=True)]


def _plain_row(item: Any, row: Row, version: int) -> Any:
    if item is None and row.tag is not None:  # a tagged field that is not there
        return flat(row.default, version) if isinstance(row.wire_type, Struct) else row.default
    return _plain(item, row.wire_type, version)


def _plain(item: Any, wire_type: WireType, version: int) -> Any:
    match item, wire_type:
        case None, FixedWidth("i", _):
            return -(2**31)  # authorized operations that were not asked for
        case set(), FixedWidth("i", bytes_):
            bits = sum(1 << bit for bit in item)
            return bits - (1 << 8 * bytes_) if bits >> 8 * bytes_ - 1 else bits
        case None, _:
            return None
        case _, Array(element):
            return [_plain(one, element, version) for one in item]
        case _, Struct(table):
            return flat_theirs(item, table, version)
        case UUID(), _:
            return item.bytes
        case memoryview(), _:
            return bytes(item)
    return item
