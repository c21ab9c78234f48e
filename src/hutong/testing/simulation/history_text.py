"""The wording of a history: places, offsets and answers as a trace shows them."""

from collections.abc import Sequence
from typing import Final

from hutong.wire.kafka.error_codes import ErrorCode

_UNKNOWN: Final = -1
Place = tuple[str, int]
"""Topic and partition."""


def place_text(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def error_name(error: int) -> str:
    return ErrorCode(error).name if error else "an abort"


def outcome_text(error: int) -> str:
    """The answer to a change, -1 where it is not known what the node did."""
    if error == _UNKNOWN:
        return ", fate unknown"
    return f", refused with {error_name(error)}" if error else ""


def ranges_text(offsets: Sequence[int]) -> str:
    """Ascending offsets, with neighbours put together: `3..5, 9`."""
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] + 1 == offset:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ", ".join(f"{first}..{last}" if last > first else str(first) for first, last in ranges)
