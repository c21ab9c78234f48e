"""One setting: its field in a section's dataclass, with its meaning, bounds and Kafka name.

Strategy: the facts are attached to the field, so that one table serves the loader, `hutong config` and the docs.

Knows no setting.
"""

from dataclasses import dataclass, field
from typing import Any

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; an IPv6 host is written in brackets. Port 0 asks the system for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one setting that its type and default do not show."""

    meaning: str
    kafka_name: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False


def setting(default: Any, meaning: str, kafka_name: str | None = None, **facts: Any) -> Any:
    """A dataclass field that carries its facts."""
    return field(default=default, metadata={"facts": Facts(meaning, kafka_name, **facts)})
