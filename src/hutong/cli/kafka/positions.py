"""Start positions of reading: the words that a person may use, and the offsets they mean.

Strategy: a position is parsed without a broker, so that a typing error is reported at once. One ListOffsets request for
all partitions turns it into offsets.

Knows nothing of consumers or groups.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from hutong.foundation.errors import UsageError

Kind = Literal["beginning", "end", "offset", "time"]


@dataclass(frozen=True, slots=True)
class Position:
    """`value` is an offset (negative counts from the end) or a time in milliseconds, by `kind`."""

    kind: Kind
    value: int = 0


def parse_position(text: str) -> Position:
    """`beginning`, `end`, an offset, -N (the last N) or an ISO 8601 time (UTC unless it says). Raises UsageError."""
    if text in ("beginning", "end"):
        return Position("beginning" if text == "beginning" else "end")
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return Position("offset", int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no position; write beginning, end, an offset, -N or a time such as 2026-01-31T12:00Z."
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Position("time", int(moment.timestamp() * 1000))


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The offset at which reading a partition starts, and its end now."""

    start: int
    high: int


def resolve(admin: Any, partitions: list[tuple[str, int]], position: Position) -> dict[tuple[str, int], PartitionRange]:
    """The range of each (topic, partition), its start within what the partition still holds."""
    from confluent_kafka.admin import OffsetSpec

    from hutong.cli.kafka import client

    lows = client.offsets(admin, partitions, OffsetSpec.earliest())
    highs = client.offsets(admin, partitions, OffsetSpec.latest())
    by_time: dict[tuple[str, int], int] = {}
    if position.kind == "time":
        by_time = client.offsets(admin, partitions, OffsetSpec.for_timestamp(position.value))
    spans = {}
    for partition in partitions:
        low, high = lows[partition], highs[partition]
        start = start_offset(position, low, high, by_time.get(partition, -1))
        spans[partition] = PartitionRange(start, high)
    return spans


def start_offset(position: Position, low: int, high: int, at_time: int) -> int:
    """The offset meant in a partition that holds [low, high); `at_time` is -1 where no record is as late."""
    if position.kind == "beginning":
        return low
    if position.kind == "end":
        return high
    if position.kind == "time":
        return high if at_time < 0 else at_time
    wanted = high + position.value if position.value < 0 else position.value
    return min(max(wanted, low), high)
