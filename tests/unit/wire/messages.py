"""Messages for tests: filled at random from the tables themselves, flattened to be compared with other codecs."""

from random import Random
from typing import Any

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.registry import APIS, Api
from hutong.wire.kafka.schema import (
    Array,
    FixedWidth,
    Opaque,
    Records,
    Row,
    Struct,
    Text,
    WireType,
    message_info,
    rows_of,
)

TEXTS = ["", "a", "topic-1", "Straße 胡同 🚲", "x" * 126, "y" * 127, "z" * 300]
INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


EVERY_MESSAGE = [
    (table, version) for api in APIS.values() for version in api.versions for table in (api.request, api.response)
]
"""Each table with each of its versions, requests and responses."""


def name_of(message: tuple[type[Any], int]) -> str:
    return f"{message[0].__name__}-v{message[1]}"


def api_of(table: type[Any]) -> Api:
    return APIS[message_info(table).api_key]


def encode(message: Any, version: int) -> bytes:
    is_request = api_of(type(message)).request is type(message)
    return b"".join((codecs.encode_request if is_request else codecs.encode_response)(message, version))


def decode(table: type[Any], version: int, data: Buffer) -> Any:
    api = api_of(table)
    return (codecs.decode_request if api.request is table else codecs.decode_response)(api.key, version, data)


def fill(table: type[Any], version: int, random: Random) -> Any:
    """An instance with random values in the fields that the version carries, and defaults in the others."""
    message = table()
    for name, row in rows_of(table):
        if version in row.versions and (row.tag is None or random.random() < 0.5):
            object.__setattr__(message, name, _value_of_row(name, row, version, random))
    return message


def _value_of_row(name: str, row: Row, version: int, random: Random) -> Any:
    if row.is_nullable(version) and random.random() < 0.25:
        return None
    if name.endswith("error_code"):
        return random.randint(-1, 129)  # others know no more codes
    if name.endswith("_ms"):
        return random.randint(-1, 2**31 - 1)  # others turn these into dates and durations of limited range
    return _value(row.wire_type, version, random)


def _value(wire_type: WireType, version: int, random: Random) -> Any:
    match wire_type:
        case FixedWidth("?", _):
            return random.random() < 0.5
        case FixedWidth("16s", _):
            return random.randbytes(16)
        case FixedWidth("d", _):
            return random.choice([0.0, 1.5, -2.25e300, float(1 << 40)])
        case FixedWidth("H", _):
            return random.choice([0, 1, 9092, 0xFFFF])
        case FixedWidth(code, _):
            return _integer(INTEGER_BITS[code], random)
        case Text():
            return random.choice(TEXTS)
        case Opaque():
            return random.randbytes(random.choice([0, 1, 20, 200]))
        case Records():
            return memoryview(random.randbytes(random.choice([0, 1, 100, 70_000])))
        case Struct(table):
            return fill(table, version, random)
        case Array(element):
            return [_value(element, version, random) for _ in range(_count(element, random))]


def _integer(bits: int, random: Random) -> int:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return random.choice([low, high, 0, 1, random.randint(low, high)])


def _count(element: WireType, random: Random) -> int:
    if isinstance(element, Struct):
        return random.choice([0, 1, 2])
    return random.choice([0, 1, 3, 130])


def flat(message: Any, version: int) -> list[Any]:
    """The values that the version carries, in the order of the table, structs as lists, records as bytes."""
    rows = rows_of(type(message))
    return [_flat_value(getattr(message, name), version) for name, row in rows if version in row.versions]


def _flat_value(item: Any, version: int) -> Any:
    if isinstance(item, list):
        if item and isinstance(item[0], memoryview):
            return b"".join(item)
        return [_flat_value(element, version) for element in item]
    if isinstance(item, memoryview):
        return bytes(item)
    return flat(item, version) if hasattr(item, "__dataclass_fields__") else item
