"""Schemas of keys and values, as requests name them and as a registry finds them.

    type and schema                          registered for the first value that is of it, unless the subject has it
    schema_id                                that one, which is a version of the subject
    schema_version                           that version of the subject
    none of them                             the subject's latest version

The subject is named, or made of the topic and the schema's name by a strategy: by default TOPIC-key or TOPIC-value.

Knows no registry and no format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.rest.records.v3_bodies import Payload
    from hutong.web.requests import WebRequest

AVRO, JSONSCHEMA, PROTOBUF = "AVRO", "JSONSCHEMA", "PROTOBUF"
REGISTERED: Final = (AVRO, JSONSCHEMA, PROTOBUF)
TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = "TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"
STRATEGIES: Final = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME)
INVALID_SCHEMA: Final = 42205
NO_REGISTRY: Final = 42206
NOT_SERIALIZED: Final = 42207
"""The schema is not there, or cannot be registered."""


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The schema that a key or a value asks for. At most one of `schema_id`, `schema_version` and `schema` is given."""

    topic: str
    is_key: bool
    type: str | None = None
    subject: str | None = None
    strategy: str = TOPIC_NAME
    schema_id: int | None = None
    schema_version: int | None = None
    schema: str | None = None

    def subject_for(self, name: str) -> str:
        """The subject of a schema with this name. Raises WebRefusal(400) for a strategy that needs a name."""
        if self.subject is not None:
            return self.subject
        if self.strategy == TOPIC_NAME:
            return f"{self.topic}-{'key' if self.is_key else 'value'}"
        if not name:
            raise WebRefusal(400, f"{self.strategy} needs a schema with a name, by schema or schema_id")
        return name if self.strategy == RECORD_NAME else f"{self.topic}-{name}"


class ValueWriter(Protocol):
    """The work of one request. It may be used on another thread than the loop's."""

    def write(self, schema: ChosenSchema, value: Any) -> bytes:
        """The bytes of a value, without the schema's id. Raises PeerError for one that is not of the schema."""
        ...


class ValueReader(Protocol):
    """A schema that reads what was written by it. It may be used on another thread than the loop's."""

    type: str

    def read(self, payload: bytes, /) -> Any:
        """The value as JSON has it. Raises PeerError for bytes that this schema has not written."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ChosenSchema:
    """A schema that was found: its type, a version of a subject, its id. `schema` is the registry's own form of it.

    A schema that no version has yet is `new`, the registry's own form of the change; its version and id are 0.
    """

    type: str
    subject: str
    version: int
    id: int
    schema: Any
    new: Any = None

    def framed(self, payload: bytes) -> bytes:
        """The payload behind the byte 0 and the id, as deserializers expect it (Confluent's format)."""
        assert self.new is None, "it is registered before anything refers to its id"
        return b"\0" + self.id.to_bytes(4, "big") + payload


class RecordSchemas(Protocol):
    """The registry of a node."""

    async def choose(self, choice: SchemaChoice, request: WebRequest) -> ChosenSchema:
        """Find the schema, which is new where the request's client may register it. Raises WebRefusal."""
        ...

    async def register(self, schema: ChosenSchema) -> ChosenSchema:
        """Register a new schema, which was chosen a moment ago. Raises WebRefusal."""
        ...

    def writer(self) -> ValueWriter: ...

    async def readers(self, ids: Collection[int], request: WebRequest) -> Mapping[int, ValueReader]:
        """The schemas of these ids that are there, and that the request's client may see. Raises WebRefusal(503)."""
        ...


SchemasNow = Callable[[], RecordSchemas | None]
"""The registry, which opens after the gateway; None where the node has none."""


def choice_of(payload: Payload, topic: str, *, is_key: bool) -> SchemaChoice | None:
    """The schema that a key or a value asks for; None where its type needs none. Raises WebRefusal(400)."""
    strategy = payload.subject_name_strategy
    named = (payload.schema_id, payload.schema_version, payload.schema)
    if payload.type is None and (payload.subject, strategy, *named) == (None,) * 5:
        return None
    if payload.type not in (None, *REGISTERED):
        if (payload.subject, strategy, *named) != (None,) * 5:
            raise WebRefusal(400, f"the type {payload.type[:50]} takes no schema and no subject")
        return None
    if payload.subject is not None and strategy is not None:
        raise WebRefusal(400, "Only one of 'subject_name_strategy' or 'subject' can be used.")
    if sum(each is not None for each in named) > 1:
        raise WebRefusal(400, "Only one of 'schema_id', 'schema_version' or 'schema' can be used.")
    if payload.schema is not None and payload.type is None:
        raise WebRefusal(400, f"a schema needs its type: {', '.join(REGISTERED)}")
    if strategy is not None and strategy not in STRATEGIES:
        raise WebRefusal(400, f"subject_name_strategy is one of {', '.join(STRATEGIES)}")
    return SchemaChoice(topic, is_key, payload.type, payload.subject, strategy or TOPIC_NAME, *named)
