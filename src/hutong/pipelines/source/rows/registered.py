"""Avro values that name their schema by its id in a registry, as rows of one schema.

Each value is read by the schema that it was written with, and laid out as the schema of the column has it. So one read
takes records of all versions of a subject. A value is undecodable where its id is not in the registry, or where its
schema cannot be read as the column's.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from hutong.foundation.errors import Refused
from hutong.pipelines.schemas.registry import is_missing
from hutong.pipelines.source.rows.avro import avro_reader
from hutong.pipelines.source.rows.avro_resolution import conversion
from hutong.pipelines.source.rows.avro_schema import Plan, parse_avro
from hutong.pipelines.source.rows.framing import IDS_MAX, unframed

ReadValue: TypeAlias = Callable[[bytes], Any]


class RegisteredReader:
    """Reads framed values as values of the plan `reader`. `text_of` looks up a schema by its id."""

    def __init__(self, reader: Plan, recursion_max: int | None, text_of: Callable[[int], str]) -> None:
        self._reader = reader
        self._recursion_max = recursion_max
        self._text_of = text_of
        self._by_id: dict[int, ReadValue] = {}

    def __call__(self, content: bytes) -> Any:
        """The value. Raises ValueError; AccessDenied, Unavailable or ProtocolError where the registry is at fault."""
        schema_id, data = unframed(content)
        read = self._by_id.get(schema_id)
        if read is None:
            if len(self._by_id) >= IDS_MAX:
                raise ValueError(f"it names schema {schema_id} after {IDS_MAX} others")
            # What was looked up in vain is kept as well, for this task.
            read = self._by_id[schema_id] = self._found(schema_id)
        return read(data)

    def _found(self, schema_id: int) -> ReadValue:
        try:
            writer = parse_avro(self._text_of(schema_id), self._recursion_max)
            convert = conversion(writer, self._reader)
        except Refused as error:
            if not is_missing(error):
                raise
            return _refusing(f"schema {schema_id} is not in the registry")
        except ValueError as error:
            return _refusing(f"schema {schema_id} cannot be read as the column's: {error}")
        read = avro_reader(writer)
        return read if writer == self._reader else lambda data: convert(read(data))


def _refusing(reason: str) -> ReadValue:
    def refuse(_data: bytes) -> Any:
        raise ValueError(reason)

    return refuse
