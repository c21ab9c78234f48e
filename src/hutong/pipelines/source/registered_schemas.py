"""Column types from a schema registry: the latest schema of a topic becomes the option that names a schema.

It is looked up once, when Spark asks for the columns of a source, and travels with the query: a version that is
registered later changes no column of a query that runs.
"""

from collections.abc import Mapping

from hutong.foundation.errors import Refused, UsageError
from hutong.pipelines.option_values import names_in
from hutong.pipelines.schemas.registry import is_missing, shared_registry
from hutong.pipelines.schemas.settings import URL, registry_of
from hutong.pipelines.source.rows.formats import PARTS


def in_registry(options: Mapping[str, str]) -> dict[str, str]:
    """Options that name a schema for each part that is Avro and has none.

    Raises UsageError, or what the registry refuses.
    """
    settings = registry_of(options)
    filled: dict[str, str] = {}
    for part in _missing(options):
        assert settings is not None
        schema = f"{part}Schema"
        subject = options.get(f"{part}Subject") or _subject(options, part)
        try:
            filled[schema] = shared_registry(settings).latest(subject).text
        except Refused as error:
            if not is_missing(error):
                raise
            raise UsageError(
                f"the schema registry has no Avro schema of subject {subject}: register one, or set {schema} or "
                f"{part}Subject"
            ) from error
    return filled


def not_looked_up(options: Mapping[str, str]) -> dict[str, str]:
    """Schemas in the place of those that `in_registry` would find, to check all other options without a registry.

    Raises UsageError.
    """
    registry_of(options)
    for part in _missing(options):
        if f"{part}Subject" not in options:
            _subject(options, part)
    return {f"{part}Schema": '"bytes"' for part in _missing(options)}


def _missing(options: Mapping[str, str]) -> list[str]:
    """The parts whose schema only a registry knows."""
    return [
        part
        for part in PARTS
        if URL in options
        and options.get(f"{part}Format", "").strip().lower() == "avro"
        and f"{part}Schema" not in options
    ]


def _subject(options: Mapping[str, str], part: str) -> str:
    """Confluent's TopicNameStrategy."""
    topics = names_in(options.get("subscribe", ""))
    if len(topics) != 1:
        raise UsageError(f"option {part}Schema or {part}Subject must be given unless subscribe names one topic")
    return f"{topics[0]}-{part}"
