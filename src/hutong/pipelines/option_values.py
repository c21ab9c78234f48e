"""Options shared by the source and the sink: parsing of values, and the cluster's address.

Options arrive as text in a case-insensitive mapping and leave as typed values, checked: contradictory options, and
options of Spark's own Kafka source that are not supported here, are refused with a sentence, never ignored. Settings
under `kafka.` that only tune the Java client have no counterpart here and are ignored.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import ClusterSettings, parse_bootstrap
from hutong.pipelines.security_options import security_of

NOT_TAKEN: Mapping[str, str] = {
    "kafka.partition.assignment.strategy": "leave it out",
    "kafka.auto.offset.reset": "use startingOffsets and endingOffsets",
    "kafka.key.deserializer": "keys are binary: cast them in the query",
    "kafka.value.deserializer": "values are binary: cast them in the query",
    "kafka.key.serializer": "cast the column key to string or binary in the query",
    "kafka.value.serializer": "cast the column value to string or binary in the query",
    "kafka.enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "kafka.interceptor.classes": "there is no Java client to intercept",
}

T = TypeVar("T")


def refuse_unsupported(options: Mapping[str, str]) -> None:
    """Raises UsageError for options that would change what is read or written and are not done here."""
    for name, advice in NOT_TAKEN.items():
        if name in options:
            raise UsageError(f"option {name} is not supported: {advice}")


def cluster_of(options: Mapping[str, str]) -> ClusterSettings:
    """Return the settings of the cluster that the options name. Raises UsageError."""
    if "kafka.bootstrap.servers" not in options:
        raise UsageError("option kafka.bootstrap.servers must be given, as HOST:PORT of one broker or several")
    isolation = options.get("kafka.isolation.level", "read_uncommitted")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise UsageError(f"option kafka.isolation.level is '{isolation}': take read_uncommitted or read_committed")
    defaults = ClusterSettings(parsed("kafka.bootstrap.servers", options["kafka.bootstrap.servers"], parse_bootstrap))
    return replace(
        defaults,
        read_committed=isolation == "read_committed",
        request_timeout_ms=count(options, "kafka.request.timeout.ms") or defaults.request_timeout_ms,
        retry_ms=count(options, "kafka.default.api.timeout.ms") or defaults.retry_ms,
        security=security_of(options),
    )


def typed(value: object, kind: type[T]) -> T:
    """`value` when it is of that kind. Raises ValueError; true and false are no numbers."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{value!r} stands where {kind.__name__} is expected")
    return value


def names_in(text: str) -> Sequence[str]:
    """Names with commas between."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    """Parse an option's text. A ValueError becomes a UsageError that names the option."""
    try:
        return parse(text)
    except (ValueError, re.error) as error:
        raise UsageError(f"option {name} is not valid: {error}") from error


def boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    """`true` or `false`. Raises UsageError."""
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name} is '{text}': take true or false")
    return text == "true"


def count(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    """A whole number from `least`, None where the option is absent. Raises UsageError."""
    if name not in options:
        return None
    try:
        number = int(options[name])
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(f"option {name} is '{options[name]}': it must be a whole number from {least}")
    return number
