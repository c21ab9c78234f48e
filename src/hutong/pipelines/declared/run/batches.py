"""The batches that have read given records, by the offset ranges in Spark's progress documents. Pure.

Strategy: a batch has read what is from a source's start offset on, up to its end offset. The first batch of a query has
no start offset, so of a record before its end it is only known that no later batch has read it. A record may have been
read by several queries, and again with a new checkpoint. Records are known by topic, partition and offset, so
a pipeline that reads a topic of the same name on another cluster looks the same.

Documents may be damaged, or written by anybody who may write to the folder: what cannot be read is left out.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hutong.pipelines.engine.micro_batches import MicroBatch, micro_batch, ranges_of

BATCHES_MAX = 500
"""Of all queries of one pipeline."""
NAME_CHARACTERS_MAX = 200
NUMBER_MAX = 2**53
"""A browser's numbers are exact below it."""
Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class ReadPlace:
    """A record that a batch has read; it may be older than what the query began with unless `is_certain`."""

    place: Place
    is_certain: bool


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """A batch with those of the records that it has read."""

    query: str
    batch_id: int
    started_ms: int
    duration_ms: int
    row_count: int
    read: tuple[ReadPlace, ...]


class ReadingBatches:
    """Finds them in documents, given in any order. `is_cut`: there are more than it has room for."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._offsets: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in sorted(set(places)):
            self._offsets.setdefault((topic, partition), []).append(offset)
        self._names = {topic.encode() for topic, _ in self._offsets}
        self.found: list[ReadingBatch] = []
        self.is_cut = False

    def may_tell(self, line: bytes) -> bool:
        """False for a line in which none of the topics is named: parsing costs more than looking."""
        return any(name in line for name in self._names)

    def add(self, progress: Mapping[str, Any]) -> None:
        """Look at one document."""
        read = tuple(
            ReadPlace((topic, partition, offset), begin is not None)
            for (topic, partition), (begin, end) in ranges_of(progress).items()
            for offset in self._within(topic, partition, begin or 0, end)
        )
        if not read:
            return
        try:
            batch = micro_batch(progress)
        except ValueError:
            return
        if not all(0 <= number < NUMBER_MAX for number in (batch.batch_id, batch.duration_ms, batch.row_count)):
            return
        if len(self.found) < BATCHES_MAX:
            self.found.append(_reading(batch, read))
        else:
            self.is_cut = True

    def _within(self, topic: str, partition: int, begin: int, end: int) -> list[int]:
        offsets = self._offsets.get((topic, partition), [])
        return offsets[bisect_left(offsets, begin) : bisect_left(offsets, end)]


def _reading(batch: MicroBatch, read: tuple[ReadPlace, ...]) -> ReadingBatch:
    # JSON can have lone surrogates, and no UTF-8 has them.
    name = batch.query[:NAME_CHARACTERS_MAX].encode(errors="replace").decode()
    return ReadingBatch(name, batch.batch_id, batch.started_ms, batch.duration_ms, batch.row_count, read)
