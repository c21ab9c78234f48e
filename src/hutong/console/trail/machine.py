"""A trail at work: the topics that are left, what was looked at, and what was found.

Strategy: topics come one after the other, each with the newest part of its partitions, within one bound of offsets for
all. A topic is done when each of its partitions has reached its end.

Knows nothing of clients and clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hutong.console.limits import TRAIL_HOPS_MAX, TRAIL_OFFSETS_MAX

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.console.trail.clues import Clue

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hop:
    """A place of the record's way, and the reason why it belongs to it."""

    record: StoredRecord
    reason: str


@dataclass(frozen=True, slots=True)
class TrailProgress:
    """`is_cut`: older records of some topics were left out, or there are more hops than are shown."""

    topic: str | None
    topics_done: int
    topics_total: int
    looked_at: int
    hops: int
    is_cut: bool


class TrailMachine:
    """One trail. Call `begin_topic` for each `next_topic`, then `receive` and `reach_end` until `is_topic_done`."""

    def __init__(self, clue: Clue, topics: Sequence[str], offsets_max: int = TRAIL_OFFSETS_MAX) -> None:
        self._clue = clue
        self._left = deque(topics)
        self._total = len(topics)
        self._offsets_left = offsets_max
        self._topic: str | None = None
        self._ends: dict[int, int] = {}  # of partitions that are not done
        self._looked_at = self._hops = 0
        self._is_cut = False

    def next_topic(self) -> str | None:
        """The topic to look at now; None where the trail has ended."""
        if not self._left or self._hops >= TRAIL_HOPS_MAX:
            self._is_cut = self._is_cut or bool(self._left)
            self._topic = None
            return None
        self._topic = self._left.popleft()
        self._ends = {}
        return self._topic

    def begin_topic(self, spans: Mapping[int, Span]) -> dict[int, int]:
        """The offset of each partition from which to read: fewer than there are, where the bound asks for it."""
        filled = {partition: span for partition, span in spans.items() if span[0] < span[1]}
        share = self._offsets_left // (len(self._left) + 1) // max(1, len(filled))
        begins: dict[int, int] = {}
        for partition, (begin, end) in filled.items():
            first = max(begin, end - share)
            self._is_cut = self._is_cut or first > begin
            if first < end:
                begins[partition] = first
                self._ends[partition] = end
                self._offsets_left -= end - first
        return begins

    @property
    def is_topic_done(self) -> bool:
        return not self._ends

    def receive(self, records: Iterable[StoredRecord]) -> list[Hop]:
        """The records among these that belong to the trail."""
        found: list[Hop] = []
        for record in records:
            end = self._ends.get(record.partition)
            # A client reads on until it is stopped.
            if end is None or record.offset >= end:
                self.reach_end(record.partition)
                continue
            self._looked_at += 1
            reason = self._clue.reason(record)
            if reason is not None and self._hops < TRAIL_HOPS_MAX:
                self._hops += 1
                found.append(Hop(record, reason))
            if record.offset + 1 >= end:
                self.reach_end(record.partition)
        return found

    def reach_end(self, partition: int) -> None:
        """Note that a partition has no more records."""
        self._ends.pop(partition, None)

    def abandon_topic(self) -> None:
        """Go on with the next topic: this one cannot be read, or takes too long."""
        self._is_cut = True
        self._ends = {}

    def progress(self) -> TrailProgress:
        done = self._total - len(self._left) - (self._topic is not None and not self.is_topic_done)
        return TrailProgress(self._topic, done, self._total, self._looked_at, self._hops, self._is_cut)
