"""kio as a second opinion: it reads what we write, and we read what it writes."""

import io
from dataclasses import fields
from datetime import datetime, timedelta
from enum import IntEnum
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from tests.unit.wire.messages import EVERY_MESSAGE, api_of, decode, encode, fill, flat, name_of

from hutong.wire.kafka.schema import ZERO_UUID, Array, FixedWidth, Struct, WireType, rows_of

EXAMPLES = 5
OWN_KEYS_FROM = 10_000
"""APIs from this key on are Hutong's own, of which nobody else knows."""
KAFKA_MESSAGES = [message for message in EVERY_MESSAGE if api_of(message[0]).key < OWN_KEYS_FROM]


def kio_schema(table: type[Any], version: int) -> Any:
    api = api_of(table)
    return (load_request_schema if api.request is table else load_response_schema)(api.key, version)


@pytest.mark.parametrize("message", KAFKA_MESSAGES, ids=name_of)
def test_kio_agrees(message: tuple[type[Any], int]) -> None:
    table, version = message
    schema = kio_schema(table, version)
    read, write = entity_reader(schema), entity_writer(schema)
    for seed in range(EXAMPLES):
        ours = fill(table, version, Random(seed))
        data = encode(ours, version)
        theirs, size = read(memoryview(data), 0)
        assert size == len(data)
        assert flat_kio(theirs, table, version) == flat(ours, version), f"seed {seed}"
        written = io.BytesIO()
        write(written, theirs)
        assert flat(decode(table, version, written.getvalue()), version) == flat(ours, version), f"seed {seed}"


def flat_kio(entity: Any, table: type[Any], version: int) -> list[Any]:
    """kio's classes have exactly the fields of their version, in the order of the schema, as our rows are."""
    rows = [row for _, row in rows_of(table) if version in row.versions]
    names = [field.name for field in fields(entity)]
    return [_plain(getattr(entity, name), row.wire_type, version) for name, row in zip(names, rows, strict=True)]


def _plain(item: Any, wire_type: WireType, version: int) -> Any:
    match item, wire_type:
        case tuple(), Array(element):
            return [_plain(one, element, version) for one in item]
        case _, Struct(table) if item is not None:
            return flat_kio(item, table, version)
        case None, FixedWidth("16s", _):
            return ZERO_UUID
        case None, FixedWidth("q", _):
            return -1  # a date that is not given
        case IntEnum(), _:
            return item.value
        case timedelta(), _:
            return round(item / timedelta(milliseconds=1))
        case datetime(), _:
            return round(item.timestamp() * 1000)
        case UUID(), _:
            return item.bytes
    return item
