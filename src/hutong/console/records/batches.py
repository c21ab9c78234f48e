"""Batches that hold the records of a page: their compression, which Kafka's client library does not show.

Strategy: the node looks into its own journal. In front of other brokers nothing can be known, and the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.wire.kafka.batch.records import BatchHeader

NO_NODE: Final = (
    "Kafka's client library unpacks batches and does not say how they were packed. "
    "The console of a Hutong node shows it for the topics of its own cluster."
)


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One batch of a partition. `size_bytes` is that of all its `records_count` records, packed, with the header."""

    partition: int
    first_offset: int
    last_offset: int
    compression: str
    size_bytes: int
    records_count: int
    is_transactional: bool


@dataclass(slots=True)
class SeenBatches:
    """Batches, a sentence for each reason why some are missing, and the bytes that were read from the disk."""

    batches: list[SeenBatch] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    read_bytes: int = 0

    def miss(self, reason: str) -> None:
        if reason not in self.missing:
            self.missing.append(reason)


class BatchSearch:
    """The batches of one partition that hold these offsets, found by reads that begin at `next_offset`."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self.found: list[BatchHeader] = []
        self._wanted = sorted(set(offsets))
        self._at = 0

    @property
    def next_offset(self) -> int | None:
        """The offset where to read, None at the end."""
        return self._wanted[self._at] if self._at < len(self._wanted) else None

    def receive(self, headers: Iterable[BatchHeader]) -> None:
        """Take the headers of what was read, in order. A read that finds nothing ends the search for its offset."""
        before = self._at
        for header in headers:
            # Deleted or compacted since the page was read.
            self._pass_until(header.base_offset)
            offset = self.next_offset
            if offset is not None and offset <= header.last_offset:
                self.found.append(header)
                self._pass_until(header.last_offset + 1)
        if self._at == before:
            self._at += 1

    def _pass_until(self, end_offset: int) -> None:
        while self._at < len(self._wanted) and self._wanted[self._at] < end_offset:
            self._at += 1


class RecordBatches:
    """Adds to records that are shown the batches that hold them."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget) -> None:
        self._desk = desk
        self._budget = budget

    async def add(self, topic: str, shown: Sequence[dict[str, Any]]) -> list[str]:
        """Give each record its `batch`, None where it is not known. Returns why some are not."""
        seen = SeenBatches(missing=[NO_NODE])
        if self._desk.node is not None:
            offsets: dict[int, list[int]] = {}
            for each in shown:
                offsets.setdefault(each["partition"], []).append(each["offset"])
            seen = await self._desk.node.batches(topic, offsets)
            self._budget.count(seen.read_bytes)
        for each in shown:
            each["batch"] = _batch_of(seen.batches, each["partition"], each["offset"])
        return seen.missing


def _batch_of(batches: Sequence[SeenBatch], partition: int, offset: int) -> dict[str, Any] | None:
    for batch in batches:
        if batch.partition == partition and batch.first_offset <= offset <= batch.last_offset:
            return {
                "compression": batch.compression,
                "size_bytes": batch.size_bytes,
                "records_count": batch.records_count,
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "is_transactional": batch.is_transactional,
            }
    return None
