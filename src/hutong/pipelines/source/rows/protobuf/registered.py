"""Protobuf values that name their schema by its id in a registry, and their message by its place there.

A message of any version is read by the column's plan, since fields are found by their numbers. The schema of the id
tells which message it is: a topic may have several, and the bytes of another would be read as nonsense.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hutong.foundation.errors import Refused
from hutong.pipelines.schemas.registry import is_missing
from hutong.pipelines.source.rows.framing import IDS_MAX, unframed
from hutong.pipelines.source.rows.protobuf.descriptors import DescriptorSet, parse_files
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage
from hutong.pipelines.source.rows.protobuf.reader import protobuf_reader
from hutong.pipelines.source.rows.protobuf.wire import append_varint, unzigzag, varint

PLACE_NUMBERS_MAX = 32


def place_of(data: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a message in its file, and the position after it (Confluent's wire format). Raises ValueError."""
    raw, at = varint(data, 0)
    count = unzigzag(raw)
    if not count:
        return (0,), at  # short for the first message of the file
    if not 0 < count <= PLACE_NUMBERS_MAX:
        raise ValueError(f"the place of the message has {count} numbers, not 1 to {PLACE_NUMBERS_MAX}")
    place = []
    for _ in range(count):
        raw, at = varint(data, at)
        place.append(unzigzag(raw))
    return tuple(place), at


def place_bytes(place: Sequence[int]) -> bytes:
    """The same as bytes."""
    out = bytearray()
    if tuple(place) == (0,):
        return b"\0"
    for number in (len(place), *place):
        append_varint(number << 1, out)
    return bytes(out)


class PlacedReader:
    """Reads messages with their place before them; all are of the plan's schema."""

    def __init__(self, plan: ProtoMessage) -> None:
        self._plan = plan
        self._read = protobuf_reader(plan)

    def __call__(self, data: bytes) -> Any:
        """The row. Raises ValueError."""
        place, at = place_of(data)
        if place != self._plan.place:
            raise ValueError(f"it is message {place} of its file, where the column has {self._plan.place}")
        return self._read(data[at:])


class RegisteredMessages:
    """Reads framed values as rows of the plan. `files_of` looks up a schema's files by its id."""

    def __init__(self, plan: ProtoMessage, files_of: Callable[[int], Sequence[bytes]]) -> None:
        self._name = plan.full_name
        self._read = protobuf_reader(plan)
        self._files_of = files_of
        self._by_id: dict[int, DescriptorSet | str] = {}

    def __call__(self, content: bytes) -> Any:
        """The row. Raises ValueError; AccessDenied, Unavailable or ProtocolError where the registry is at fault."""
        schema_id, data = unframed(content)
        found = self._by_id.get(schema_id)
        if found is None:
            if len(self._by_id) >= IDS_MAX:
                raise ValueError(f"it names schema {schema_id} after {IDS_MAX} others")
            # What was looked up in vain is kept as well, for this task.
            found = self._by_id[schema_id] = self._found(schema_id)
        if isinstance(found, str):
            raise ValueError(found)
        place, at = place_of(data)
        message = found.at(place)
        if message is None:
            raise ValueError(f"schema {schema_id} has no message at {place}")
        if message.full_name != self._name:
            raise ValueError(f"it is a message {message.full_name}, where the column has {self._name}")
        return self._read(data[at:])

    def _found(self, schema_id: int) -> DescriptorSet | str:
        """The schema, or the reason for which there is none."""
        try:
            return parse_files(self._files_of(schema_id))
        except Refused as error:
            if not is_missing(error):
                raise
            return f"schema {schema_id} is not in the registry"
        except ValueError as error:
            return f"schema {schema_id} cannot be read: {error}"
