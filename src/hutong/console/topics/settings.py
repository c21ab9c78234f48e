"""Settings of a topic or broker as values: each with its source, and what it would be without it.

Knows no client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka.admin import ConfigSource

_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.GROUP_CONFIG: "group",
}
_HIDDEN: Final = None


def setting_row(entry: Any) -> dict[str, Any]:
    """One setting. A secret has no value, also where the broker sends it."""
    source = ConfigSource(entry.source)
    return {
        "name": entry.name,
        "value": _HIDDEN if entry.is_sensitive else entry.value,
        "source": _SOURCES.get(source, "unknown"),
        "inherited": _HIDDEN if entry.is_sensitive else _inherited(entry, source),
        "is_default": source is ConfigSource.DEFAULT_CONFIG,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
    }


def setting_rows(entries: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [setting_row(entry) for _, entry in sorted(entries.items())]


def _inherited(entry: Any, source: ConfigSource) -> str | None:
    """The value that a reset brings back, where the broker lists it among the synonyms (KIP-226)."""
    if source is not ConfigSource.DYNAMIC_TOPIC_CONFIG:
        return str(entry.value) if entry.value is not None else None
    # The library keeps one synonym of each name; the topic's own entry is one of them.
    others = [each for each in entry.synonyms.values() if ConfigSource(each.source) is not source]
    return None if not others else others[0].value
