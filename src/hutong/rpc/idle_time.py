"""The idle time of references and streams: a setting of users in seconds. Imports nothing: every node's start does."""

from typing import Final

REFERENCE_IDLE_DEFAULT: Final = 300.0  # seconds, as in Vert.x
REFERENCE_IDLE_MAX: Final = 2_147_483


def idle_ms_of(reference_idle_time: float | None) -> int | None:
    """The idle time in milliseconds. Raises TypeError, and ValueError for one that is out of bounds."""
    if reference_idle_time is None:
        return None
    if type(reference_idle_time) not in (int, float):
        raise TypeError(f"reference_idle_time is seconds, or None, not {type(reference_idle_time).__name__}")
    if not 0.001 <= reference_idle_time <= REFERENCE_IDLE_MAX:  # neither holds for NaN
        raise ValueError(f"reference_idle_time is from 0.001 to {REFERENCE_IDLE_MAX} seconds, or None")
    return int(reference_idle_time * 1_000)
