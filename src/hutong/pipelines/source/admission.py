"""Limits of a micro-batch: a greatest number of records, and a least one before it starts.

Options, arithmetic and defaults are those of Spark's own Kafka source: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`,
`maxTriggerDelay`. Knows nothing of brokers or Spark.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.option_values import count, parsed

TRIGGER_DELAY_MS_MAX = 15 * 60_000
UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """`records_min` are waited for, but not longer than `delay_ms_max` after the batch before."""

    records_max: int | None = None
    records_min: int | None = None
    delay_ms_max: int = TRIGGER_DELAY_MS_MAX


def trigger_limits(options: Mapping[str, str]) -> TriggerLimits:
    """Raises UsageError."""
    records_max, records_min = count(options, "maxOffsetsPerTrigger"), count(options, "minOffsetsPerTrigger")
    if records_max is not None and records_min is not None and records_min > records_max:
        raise UsageError(
            f"option minOffsetsPerTrigger is {records_min}, more than maxOffsetsPerTrigger, {records_max}: make it less"
        )
    delay_ms = TRIGGER_DELAY_MS_MAX
    if "maxTriggerDelay" in options:
        delay_ms = parsed("maxTriggerDelay", options["maxTriggerDelay"], duration_ms)
    return TriggerLimits(records_max, records_min, delay_ms)


class Admission:
    """Decides for one query where its next micro-batch ends."""

    def __init__(self, limits: TriggerLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._last_trigger_ms: int | None = None

    def reach(self, start: Offsets, latest: Offsets, *, everything: bool = False, wait: bool = True) -> Offsets:
        """The end of the next batch: `start` itself when it is too early for one.

        `everything` is for a query that runs once and sets its limits aside; `wait` is off where no more will come.
        """
        if everything:
            return latest
        if wait and self._is_too_early(start, latest):
            return start
        if self._limits.records_max is None:
            return latest
        return limit(start, latest, self._limits.records_max)

    def _is_too_early(self, start: Offsets, latest: Offsets) -> bool:
        records_min = self._limits.records_min
        if records_min is None:
            return False
        now_ms = self._clock.monotonic_ms()
        last_ms = self._last_trigger_ms
        if last_ms is not None and now_ms - last_ms < self._limits.delay_ms_max:
            there = sum(offset - start.get(partition, 0) for partition, offset in latest.items())
            if there < records_min:
                return True
        self._last_trigger_ms = now_ms
        return False


def limit(start: Offsets, end: Offsets, records_max: int) -> Offsets:
    """An end not further than `records_max` records, shared out by how much each partition has left."""
    left = {partition: max(end[partition] - start.get(partition, 0), 0) for partition in end}
    total = sum(left.values())
    if total <= records_max:
        return dict(end)
    reached = {}
    for partition, size in left.items():
        share = records_max * size / total
        # At least one record, so that a partition with little left is not starved for ever by those with much.
        taken = min(size, math.ceil(share) if share < 1 else int(share))
        reached[partition] = start.get(partition, 0) + taken if size else end[partition]
    return reached


def duration_ms(text: str) -> int:
    """Read `90s`, `15m`, `500` (milliseconds) and the like. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in UNITS_MS:
        raise ValueError(f"'{text}' is no time: write a whole number and ms, s, m, h or d")
    return int(found[1]) * UNITS_MS[found[2]]
