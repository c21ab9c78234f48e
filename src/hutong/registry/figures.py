"""Counts of a registry's requests and of the schemas that it has parsed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

OK: Final = "ok"


@dataclass(slots=True)
class RegistryFigures:
    """Figures: requests_total (by method, path, and `ok` or the error code), parsed_total, known_total (not parsed)."""

    requests_total: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    parsed_total: int = 0
    known_total: int = 0


@dataclass(frozen=True, slots=True)
class SchemaCounts:
    """Subjects and versions that are not deleted, and schemas with an id, which several versions may share."""

    subjects: int
    versions: int
    schemas: int
