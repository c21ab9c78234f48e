"""Keys and values that begin with a schema's id: the byte 0, four bytes of the id, the payload (Confluent's format).

Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import PeerError
from hutong.rest.records.schemas import SchemasNow, ValueReader

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.web.requests import WebRequest

HEAD_BYTES: Final = 5
IDS_MAX: Final = 1_000
"""Of one answer: any bytes may follow a zero byte. Records with further ones count as written by no schema."""


class Undecodable(PeerError):
    """Bytes that no schema here has written, with the reason as a sentence."""


class RecordDecoder:
    """Finds the schemas of records."""

    def __init__(self, schemas: SchemasNow) -> None:
        self._schemas = schemas

    @property
    def is_there(self) -> bool:
        """True where the node has a registry."""
        return self._schemas() is not None

    async def readers(self, records: Iterable[StoredRecord], request: WebRequest) -> Mapping[int, ValueReader]:
        """The schemas that these records name, as far as they are there. Raises WebRefusal(503)."""
        schemas = self._schemas()
        named = (schema_id_of(data) for record in records for data in (record.key, record.value))
        ids = list(dict.fromkeys(schema_id for schema_id in named if schema_id is not None))
        return {} if schemas is None else await schemas.readers(ids[:IDS_MAX], request)


def schema_id_of(data: bytes | None) -> int | None:
    """The id that the bytes begin with; None where they begin otherwise."""
    if data is None or len(data) < HEAD_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:HEAD_BYTES], "big")


def decoded(data: bytes, readers: Mapping[int, ValueReader]) -> tuple[ValueReader, int, Any]:
    """The schema, its id, and the value as JSON has it. Raises PeerError."""
    schema_id = schema_id_of(data)
    if schema_id is None:
        raise Undecodable("it does not begin with the byte 0 and the id of a schema")
    reader = readers.get(schema_id)
    if reader is None:
        raise Undecodable(f"schema {schema_id} is not known here")
    return reader, schema_id, reader.read(data[HEAD_BYTES:])
