"""One page of a topic, merged from its partitions by time: the newest before a place, or the oldest after it.

Strategy: each partition is read in parts, the part next to the page first. A record goes to the page once every
partition has shown its next one, or has none. So within a partition the order is that of offsets, also where the
clocks of producers differ, and the next page begins exactly where this one ends.

Knows nothing of clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.console.records.seen import SeenRecord

Span = tuple[int, int]
"""The first offset and the one after the last."""
_PART_OFFSETS_MIN: Final = 10
_PART_OFFSETS_MAX: Final = 100_000
"""Of a partition that was compacted: parts without records double."""


@dataclass(slots=True)
class _PageLane:
    """One partition: what is unread is `[begin, end)`, what is read and not on the page is in `ready`."""

    begin: int
    end: int
    part: Span  # being read
    part_offsets: int
    at: int = 0  # the next offset of the part
    ready: deque[SeenRecord] = field(default_factory=deque)
    low: int = 0  # the page has the offsets [low, high) of the partition
    high: int = 0

    @property
    def is_reading(self) -> bool:
        return self.at < self.part[1]


class PageMachine:
    """One page. `spans` are the offsets that there are, on this side of the place where the page begins."""

    def __init__(self, spans: Mapping[int, Span], records_max: int, *, is_newest_first: bool) -> None:
        self._records_max = records_max
        self._is_newest_first = is_newest_first
        self._page: list[SeenRecord] = []
        share = max(_PART_OFFSETS_MIN, -(-2 * records_max // max(1, len(spans))))
        self._lanes: dict[int, _PageLane] = {}
        for partition, (begin, end) in spans.items():
            edge = end if is_newest_first else begin
            lane = _PageLane(begin, end, (edge, edge), min(share, records_max), edge, low=edge, high=edge)
            self._lanes[partition] = lane
        self._proceed()

    @property
    def is_done(self) -> bool:
        return not self.parts()

    def parts(self) -> dict[int, Span]:
        """The offsets to read next; what is read of them already is left out."""
        return {place: (lane.at, lane.part[1]) for place, lane in self._lanes.items() if lane.is_reading}

    def receive(self, records: Iterable[SeenRecord]) -> None:
        """Take records, in order within each partition. Others than those of the parts are passed over."""
        for record in records:
            lane = self._lanes.get(record.partition)
            if lane is None or not lane.is_reading or record.offset < lane.at:
                continue
            lane.at = min(record.offset + 1, lane.part[1])
            if record.offset < lane.part[1]:
                lane.ready.append(record)
        self._proceed()

    def reach_end(self, partition: int, part_end: int) -> None:
        """Note that a partition had no more records when the part with this end was read."""
        lane = self._lanes.get(partition)
        # The part may be done already, and the next one begun.
        if lane is not None and lane.part[1] == part_end:
            lane.at = lane.part[1]
        self._proceed()

    def page(self) -> list[SeenRecord]:
        return self._page

    def bounds(self) -> dict[int, Span]:
        """The offsets of each partition that the page covers."""
        return {place: (lane.low, lane.high) for place, lane in self._lanes.items()}

    def check_invariants(self) -> None:
        assert len(self._page) <= self._records_max
        for lane in self._lanes.values():
            assert lane.begin <= lane.end
            assert lane.low <= lane.high

    def _proceed(self) -> None:
        """Move what is certain to the page, then choose what to read."""
        while len(self._page) < self._records_max and self._move_one():
            pass
        if len(self._page) >= self._records_max:
            for lane in self._lanes.values():
                lane.at = lane.part[1]  # nothing more is read

    def _move_one(self) -> bool:
        """Move the next record. False where a partition must be read first, or nothing is left."""
        best: _PageLane | None = None
        for lane in self._lanes.values():
            if not lane.is_reading and not lane.ready and lane.begin < lane.end:
                self._begin_part(lane)
        if any(lane.is_reading for lane in self._lanes.values()):
            return False
        for lane in self._lanes.values():
            if lane.ready and (best is None or self._is_before(self._edge(lane), self._edge(best))):
                best = lane
        if best is None:
            self._cover_all()
            return False
        if self._is_newest_first:
            record = best.ready.pop()
            best.low = record.offset
        else:
            record = best.ready.popleft()
            best.high = record.offset + 1
        self._page.append(record)
        return True

    def _edge(self, lane: _PageLane) -> SeenRecord:
        return lane.ready[-1] if self._is_newest_first else lane.ready[0]

    def _is_before(self, one: SeenRecord, other: SeenRecord) -> bool:
        if self._is_newest_first:
            return one.timestamp_ms > other.timestamp_ms
        return one.timestamp_ms < other.timestamp_ms

    def _begin_part(self, lane: _PageLane) -> None:
        if self._is_newest_first:
            begin = max(lane.begin, lane.end - lane.part_offsets)
            lane.part, lane.end = (begin, lane.end), begin
        else:
            end = min(lane.end, lane.begin + lane.part_offsets)
            lane.part, lane.begin = (lane.begin, end), end
        lane.at = lane.part[0]
        lane.part_offsets = min(2 * lane.part_offsets, _PART_OFFSETS_MAX)

    def _cover_all(self) -> None:
        """Nothing is left on this side: what has no records belongs to the page, too."""
        for lane in self._lanes.values():
            lane.low, lane.high = min(lane.low, lane.begin), max(lane.high, lane.end)
