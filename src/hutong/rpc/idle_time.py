"""The idle time of references and streams: a setting of users in seconds. Imports nothing: every node's start does."""

from typing import Final

REFERENCE_IDLE_SECONDS_DEFAULT: Final = 300.0  # as in Vert.x
REFERENCE_IDLE_SECONDS_MAX: Final = 2_147_483


def idle_ms_of(reference_idle_seconds: float | None) -> int | None:
    """The idle time in milliseconds. Raises TypeError, and ValueError for one that is out of bounds."""
    if reference_idle_seconds is None:
        return None
    if type(reference_idle_seconds) not in (int, float):
        raise TypeError(f"reference_idle_seconds is a number, or None, not {type(reference_idle_seconds).__name__}")
    if not 0.001 <= reference_idle_seconds <= REFERENCE_IDLE_SECONDS_MAX:  # neither holds for NaN
        raise ValueError(f"reference_idle_seconds is from 0.001 to {REFERENCE_IDLE_SECONDS_MAX}, or None")
    return int(reference_idle_seconds * 1_000)
