"""Records of the topic `_schemas`: keys and values as JSON in the layout of Confluent's registry.

Strategy: a key names its kind in `keytype`; its members have a fixed order, because compaction compares bytes. Members
of values that are not known are ignored, so that the topic of another version can be taken over.

Decides nothing. Raises ProtocolError for bytes that are no such record.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.registry.values import SchemaReference, SchemaText, SchemaVersion

AVRO: Final = "AVRO"


class RecordKey(msgspec.Struct, frozen=True):
    """A key of any kind."""

    keytype: str
    magic: int = 0
    subject: str | None = None
    version: int = 0


class _StoredReference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Value(msgspec.Struct):
    """Members of all kinds of values."""

    subject: str | None = None
    version: int | None = None
    id: int | None = None
    schema: str | None = None
    schemaType: str | None = None
    references: list[_StoredReference] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    deleted: bool = False
    compatibilityLevel: str | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaStored:
    """`version` is None where the record is a tombstone."""

    subject: str
    number: int
    version: SchemaVersion | None


@dataclass(frozen=True, slots=True)
class ConfigStored:
    """The level of a subject, or of all for None; None for none."""

    subject: str | None
    level: str | None


@dataclass(frozen=True, slots=True)
class ModeStored:
    """The same of a mode."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True, slots=True)
class SubjectDeleted:
    """All versions of a subject up to this one are softly deleted."""

    subject: str
    version: int


StoredChange: TypeAlias = SchemaStored | ConfigStored | ModeStored | SubjectDeleted
RawRecord: TypeAlias = tuple[bytes, bytes | None]
_decode_key: Final = msgspec.json.Decoder(RecordKey).decode
_decode_value: Final = msgspec.json.Decoder(_Value).decode
_decode_any: Final = msgspec.json.Decoder(dict[str, Any]).decode


def decode_record(key: bytes, value: bytes | None) -> StoredChange | None:
    """The change of a record; None for one that changes nothing (NOOP, CONTEXT, kinds of the future)."""
    try:
        found = _decode_key(key)
        content = None if value is None else _decode_value(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a record that is none of a schema registry: {error}") from None
    kind, subject = found.keytype, found.subject
    if kind == "SCHEMA" and subject is not None:
        return SchemaStored(subject, found.version, None if content is None else _version(found, content))
    if kind == "CONFIG":
        return ConfigStored(subject, None if content is None else content.compatibilityLevel)
    if kind == "MODE":
        return ModeStored(subject, None if content is None else content.mode)
    if kind == "DELETE_SUBJECT" and subject is not None and content is not None:
        return SubjectDeleted(subject, content.version or 0)
    return None


def _version(key: RecordKey, value: _Value) -> SchemaVersion:
    if value.schema is None or value.id is None or key.subject is None:
        raise ProtocolError("a schema without its text or its id")
    references = tuple(SchemaReference(each.name, each.subject, each.version) for each in value.references or ())
    text = SchemaText(value.schemaType or AVRO, value.schema, references, encode_extra(value.metadata, value.ruleSet))
    return SchemaVersion(key.subject, key.version, value.id, text, value.deleted)


def encode_extra(metadata: dict[str, Any] | None, rule_set: dict[str, Any] | None) -> str:
    """Metadata and rules as canonical JSON, empty where there are none."""
    extra = {name: value for name, value in (("metadata", metadata), ("ruleSet", rule_set)) if value is not None}
    return msgspec.json.encode(extra, order="sorted").decode() if extra else ""


def decode_extra(text: SchemaText) -> dict[str, Any]:
    return _decode_any(text.extra) if text.extra else {}


def schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def schema_record(version: SchemaVersion) -> RawRecord:
    text = version.text
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    # As Confluent writes it: readers of old versions know nothing but Avro.
    if text.schema_type != AVRO:
        value["schemaType"] = text.schema_type
    if text.references:
        value["references"] = [_reference(each) for each in text.references]
    value |= decode_extra(text)
    value |= {"schema": text.schema, "deleted": version.is_deleted}
    return schema_key(version.subject, version.version), _json(value)


def schema_tombstone(subject: str, version: int) -> RawRecord:
    return schema_key(subject, version), None


def config_record(subject: str | None, level: str | None) -> RawRecord:
    value = None if level is None else _json({"subject": subject, "compatibilityLevel": level})
    return _json({"keytype": "CONFIG", "subject": subject, "magic": 0}), value


def mode_record(subject: str | None, mode: str | None) -> RawRecord:
    value = None if mode is None else _json({"subject": subject, "mode": mode})
    return _json({"keytype": "MODE", "subject": subject, "magic": 0}), value


def delete_subject_record(subject: str, version: int) -> RawRecord:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return _json(key), _json({"subject": subject, "version": version})


def _reference(reference: SchemaReference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
