"""Any Kafka request in any version, encoded and decoded by kio, whose schemas come from Kafka's own.

Strategy: a request is given as plain values that cover all versions; what a version does not have is left out, what is
not given gets the zero of its type. Replies are kio's dataclasses. Knows nothing of what requests mean.
"""

import dataclasses
import importlib
import io
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Self

from bench.raw_client import RawConnection
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

CLIENT_ID: Final = "kio"
REQUEST: Final = "request"
RESPONSE: Final = "response"
ZEROES: Final[Mapping[str, Any]] = {"string": "", "bool": False, "bytes": b"", "uuid": None, "records": None}


@cache
def schema(api_key: int, api_version: int, direction: str) -> type[Any]:
    """kio's dataclass of one API in one version; `direction` is "request" or "response"."""
    name = api_key_map[api_key]
    module = importlib.import_module(f"kio.schema.{name}.v{api_version}.{direction}")
    wanted = (name + direction).replace("_", "")
    (found,) = (value for key, value in vars(module).items() if key.lower() == wanted)
    return typing.cast(type[Any], found)


def build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A `kind` with those of `values` that it has; nested structures are given as mappings or lists of mappings."""
    hints = typing.get_type_hints(kind)
    made = {}
    for field in dataclasses.fields(kind):
        if field.name in values:
            made[field.name] = _converted(hints[field.name], values[field.name])
        elif field.default is dataclasses.MISSING:
            type_name = field.metadata.get("kafka_type", "array")
            made[field.name] = () if _is_array(hints[field.name]) else ZEROES.get(type_name, 0)
    return kind(**made)


def error_codes(value: Any) -> Iterator[ErrorCode]:
    """Every error code in a reply, however deep."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from error_codes(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from error_codes(getattr(value, field.name))


class KioClient:
    """One connection. `call` raises AssertionError when the reply has bytes left over or answers something else."""

    def __init__(self, address: str) -> None:
        self._connection = RawConnection(address)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def call(self, api_key: int, api_version: int, **values: Any) -> Any:
        self._correlation_id += 1
        frame = encode_request(api_key, api_version, self._correlation_id, values)
        reply = self._connection.call(frame)
        kind = schema(api_key, api_version, RESPONSE)
        header, header_size = entity_reader(kind.__header_schema__)(reply, 4)
        assert header.correlation_id == self._correlation_id
        response, size = entity_reader(kind)(reply, 4 + header_size)
        rest = len(reply) - 4 - header_size - size
        assert not rest, f"{rest} bytes follow the reply"
        return response


def encode_request(api_key: int, api_version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    """A whole frame, size included."""
    kind = schema(api_key, api_version, REQUEST)
    header = build(
        kind.__header_schema__,
        {
            "request_api_key": api_key,
            "request_api_version": api_version,
            "correlation_id": correlation_id,
            "client_id": CLIENT_ID,
        },
    )
    buffer = io.BytesIO()
    entity_writer(kind.__header_schema__)(buffer, header)
    entity_writer(kind)(buffer, build(kind, values))
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


def _converted(hint: Any, value: Any) -> Any:
    nested = _nested(hint)
    if nested is None:
        return tuple(value) if isinstance(value, list) else value
    if isinstance(value, list):
        return tuple(build(nested, part) for part in value)
    return build(nested, value) if isinstance(value, Mapping) else value


def _nested(hint: Any) -> type[Any] | None:
    if dataclasses.is_dataclass(hint):
        return typing.cast(type[Any], hint)
    found = (_nested(part) for part in typing.get_args(hint))
    return next((part for part in found if part), None)


def _is_array(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(_is_array(part) for part in typing.get_args(hint))
