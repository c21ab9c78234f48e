"""Column types from a schema registry: the latest schema of a topic becomes the option that names a schema.

It is looked up once, when Spark asks for the columns of a source, and travels with the query: a version that is
registered later changes no column of a query that runs.
"""

from collections.abc import Callable, Mapping

from hutong.foundation.errors import Refused, UsageError
from hutong.pipelines.option_values import names_in
from hutong.pipelines.schemas.json_types import kind_of_json, parse_json_schema
from hutong.pipelines.schemas.registry import (
    AVRO,
    JSON,
    NAMES,
    PROTOBUF,
    RegisteredSchema,
    is_missing,
    shared_registry,
)
from hutong.pipelines.schemas.settings import URL, registry_of
from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.formats import PARTS
from hutong.pipelines.source.rows.kinds import ddl
from hutong.pipelines.source.rows.protobuf.descriptors import file_of_one, parse_file_text, set_text


def in_registry(options: Mapping[str, str]) -> dict[str, str]:
    """Options that name a schema for each part whose format needs one, and that has none.

    Raises UsageError, or what the registry refuses.
    """
    settings = registry_of(options)
    filled: dict[str, str] = {}
    for part in _missing(options):
        assert settings is not None
        schema = f"{part}Schema"
        subject = options.get(f"{part}Subject") or _subject(options, part)
        kind, text_of = _FORMATS[_format(options, part)]
        try:
            filled[schema] = text_of(shared_registry(settings).latest(subject, kind))
        except Refused as error:
            if not is_missing(error):
                raise
            raise UsageError(
                f"the schema registry has no {NAMES[kind]} schema of subject {subject}: register one, or set {schema} "
                f"or {part}Subject"
            ) from error
        except ValueError as error:
            raise UsageError(f"the schema of subject {subject} {_UNFIT}: {error}; set {schema}") from error
    return filled


def _ddl_of(found: RegisteredSchema) -> str:
    """The columns of a JSON schema in Spark SQL's words. Raises ValueError."""
    return ddl(kind_of_json(parse_json_schema(found.text, dict(found.imports))))


def _descriptors_of(found: RegisteredSchema) -> str:
    """A file and those that it imports as a set of descriptors. Raises ValueError."""
    return set_text(map(parse_file_text, (*dict(found.imports).values(), found.text)))


_UNFIT = "gives no column"
_FORMATS: dict[str, tuple[str, Callable[[RegisteredSchema], str]]] = {
    "avro": (AVRO, lambda found: found.text),
    "json": (JSON, _ddl_of),
    "protobuf": (PROTOBUF, _descriptors_of),
}


def not_looked_up(options: Mapping[str, str]) -> dict[str, str]:
    """Schemas in the place of those that `in_registry` would find, to check all other options without a registry.

    Raises UsageError.
    """
    registry_of(options)
    for part in _missing(options):
        if f"{part}Subject" not in options:
            _subject(options, part)
    return {f"{part}Schema": _placeholder(options, part) for part in _missing(options)}


def _placeholder(options: Mapping[str, str], part: str) -> str:
    """Any schema would do: only the other options are checked, one of which may name a message."""
    match _format(options, part):
        case "avro":
            return '"bytes"'
        case "json":
            return kinds.STRING
        case _:
            return set_text([file_of_one(options.get(f"{part}Message", "").strip() or "M")])


def _missing(options: Mapping[str, str]) -> list[str]:
    """The parts whose schema only a registry knows."""
    return [
        part
        for part in PARTS
        if URL in options and _format(options, part) in _FORMATS and f"{part}Schema" not in options
    ]


def _format(options: Mapping[str, str], part: str) -> str:
    return options.get(f"{part}Format", "").strip().lower()


def _subject(options: Mapping[str, str], part: str) -> str:
    """Confluent's TopicNameStrategy."""
    topics = names_in(options.get("subscribe", ""))
    if len(topics) != 1:
        raise UsageError(f"option {part}Schema or {part}Subject must be given unless subscribe names one topic")
    return f"{topics[0]}-{part}"
