"""Counters of a provider's keys.

Knows nothing of how they are exposed.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class KeyFigures:
    """Of one provider."""

    keys_count: int = 0  # in use now
    fetched_at_ms: int | None = None  # Unix time of the last fetch that succeeded
    fetched_total: int = 0
    failed_total: int = 0
