"""A search at work: which records match, how far it is, and when it has ended.

Strategy: it reads in rounds. From the oldest on there is one round, over all that was there when it began. From the
newest on, a round is a part of each partition, read forwards as clients read; parts grow while little is found. Its
matches are sorted at its end. Progress is counted in offsets: compaction and transactions leave some out, and the end
of a log is known in offsets alone.

Knows nothing of clients and clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hutong.console.limits import (
    SEARCH_HELD_BYTES_MAX,
    SEARCH_MATCHES_MAX,
    SEARCH_PART_OFFSETS_MAX,
    SEARCH_PART_OFFSETS_MIN,
)

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.console.records.decoding.shown import SchemaOf
    from hutong.console.records.searching.conditions import Conditions

Span = tuple[int, int]
"""The first offset and the one after the last."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """`offsets_passed` of `offsets_total`; `looked_at` are records that were there.

    `ended`: None while it goes on, else "all", "matches" (there are as many as it may have) or "cancelled".
    """

    offsets_passed: int
    offsets_total: int
    looked_at: int
    bytes_read: int
    matches: int
    ended: str | None


@dataclass(slots=True)
class _Lane:
    """One partition: `at` is the next offset of the round's part, `begin <= part_begin <= at <= part_end`."""

    begin: int
    end: int
    part_begin: int
    part_end: int
    at: int
    passed: int = 0  # in the rounds before

    @property
    def is_done(self) -> bool:
        return self.at >= self.part_end

    def next_part(self, offsets_max: int) -> None:
        """Go on with the part before this one."""
        self.passed += self.part_end - self.part_begin
        self.part_end = self.part_begin
        self.part_begin = self.at = max(self.begin, self.part_end - offsets_max)


class SearchMachine:
    """One search. `spans` are those of the partitions to look at."""

    def __init__(
        self,
        conditions: Conditions,
        spans: Mapping[int, Span],
        *,
        is_newest_first: bool,
        matches_max: int = SEARCH_MATCHES_MAX,
    ) -> None:
        self._conditions = conditions
        self._is_newest_first = is_newest_first
        self._matches_max = matches_max
        self._part_offsets = SEARCH_PART_OFFSETS_MIN
        self._lanes = {
            partition: _Lane(begin, end, end if is_newest_first else begin, end, end if is_newest_first else begin)
            for partition, (begin, end) in spans.items()
            if begin < end
        }
        self._looked_at = self._bytes_read = self._matches = 0
        self._held: deque[StoredRecord] = deque()  # matches of the round
        self._held_bytes = 0
        self._has_dropped = False
        self._ended: str | None = None if self._lanes else "all"
        if is_newest_first:
            self._next_parts()

    @property
    def is_ended(self) -> bool:
        return self._ended is not None

    def round(self) -> dict[int, Span]:
        """The offsets of the round that are not read yet. It is another round once `is_round_over` was True."""
        return {place: (lane.at, lane.part_end) for place, lane in self._lanes.items() if not lane.is_done}

    @property
    def is_round_over(self) -> bool:
        return self.is_ended or all(lane.is_done for lane in self._lanes.values())

    def receive(self, records: Iterable[StoredRecord], schema_of: SchemaOf | None = None) -> list[StoredRecord]:
        """Look at records, in order within each partition; returns matches that can be shown."""
        found: list[StoredRecord] = []
        for record in records:
            if self._ended is not None:
                break
            # A client reads on until it notices that a partition is done.
            if not self._advance(record):
                continue
            self._looked_at += 1
            self._bytes_read += record.size_bytes
            if self._conditions.hold(record, schema_of):
                if self._is_newest_first:
                    self._hold(record)
                else:
                    found.append(record)
                    self._count_match()
        return found

    def reach_end(self, partition: int) -> None:
        """Note that a partition has no more records now: the offsets that are left have none."""
        lane = self._lanes.get(partition)
        if lane is not None:
            lane.at = lane.part_end

    def next_round(self) -> list[StoredRecord]:
        """Begin the next round, or end; returns matches of the one before. Only where `is_round_over`."""
        found = sorted(self._held, key=lambda each: (each.timestamp_ms, each.partition, each.offset), reverse=True)
        found = found[: self._matches_max - self._matches]
        self._matches += len(found)
        if self._ended is None and (self._matches >= self._matches_max or self._has_dropped):
            self._ended = "matches"
        if len(self._held) < self._matches_max // 10:
            self._part_offsets = min(2 * self._part_offsets, SEARCH_PART_OFFSETS_MAX)
        self._held.clear()
        self._held_bytes = 0
        self._next_parts()
        return found

    def cancel(self) -> None:
        """End it where it is."""
        if self._ended is None:
            self._ended = "cancelled"

    def progress(self) -> SearchProgress:
        passed = sum(lane.passed + lane.at - lane.part_begin for lane in self._lanes.values())
        total = sum(lane.end - lane.begin for lane in self._lanes.values())
        matches = self._matches + len(self._held)
        return SearchProgress(passed, total, self._looked_at, self._bytes_read, matches, self._ended)

    def check_invariants(self) -> None:
        for lane in self._lanes.values():
            assert lane.begin <= lane.part_begin <= lane.at <= lane.part_end <= lane.end
        assert self._matches <= min(self._looked_at, self._matches_max)
        assert self._held_bytes == sum(each.size_bytes for each in self._held)

    def _next_parts(self) -> None:
        if self._ended is not None:
            return
        for lane in self._lanes.values():
            if self._is_newest_first:
                lane.next_part(self._part_offsets)
        if all(lane.is_done for lane in self._lanes.values()):
            self._ended = "all"

    def _advance(self, record: StoredRecord) -> bool:
        """True for a record of the round; one behind its part tells that the part is done."""
        lane = self._lanes.get(record.partition)
        if lane is None or record.offset < lane.at:
            return False
        lane.at = min(record.offset + 1, lane.part_end)
        return record.offset < lane.part_end

    def _hold(self, record: StoredRecord) -> None:
        self._held.append(record)
        self._held_bytes += record.size_bytes
        # Values may be large: the search shows what fits, and ends with this round.
        while self._held_bytes > SEARCH_HELD_BYTES_MAX and len(self._held) > 1:
            self._held_bytes -= self._held.popleft().size_bytes
            self._has_dropped = True

    def _count_match(self) -> None:
        self._matches += 1
        if self._matches >= self._matches_max:
            self._ended = "matches"
