"""Streams that end, and what a watermark lets through, computed without Spark."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

T = TypeVar("T")
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
PARTITIONS = 3
"""Of the topics here, filled in turn."""


@dataclass(slots=True)
class Ended:
    """The rows of a stream, and its progress."""

    rows: "list[Row]" = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)


def run_to_end(frame: "DataFrame", checkpoint: Path, mode: str = "append") -> Ended:
    """Runs a stream until the present end of its topics."""
    ended = Ended()

    def take(batch: "DataFrame", _number: int) -> None:
        ended.rows.extend(batch.collect())

    writer = frame.writeStream.foreachBatch(take).outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    ended.progress = [json.loads(one.json) for one in query.recentProgress]
    return ended


def batches_of(progress: Sequence[dict[str, Any]], sent: Sequence[T]) -> Iterator[list[T]]:
    """The content of each micro-batch, of values that were sent to one topic in turn over its partitions."""
    seen: dict[str, int] = {}
    for one in {one["batchId"]: one for one in progress}.values():
        (ends,) = one["sources"][0]["endOffset"].values()
        places = ((int(part), offset) for part, end in ends.items() for offset in range(seen.get(part, 0), end))
        yield [sent[offset * PARTITIONS + part] for part, offset in places]
        seen = ends


def with_watermarks(
    batches: Iterable[list[T]], time_of: Callable[[T], datetime], delay: timedelta
) -> Iterator[tuple[list[T], datetime, datetime]]:
    """Each batch, the watermark before which what comes in it is late, and the one before which results are final."""
    late = final = BEGINNING
    for batch in batches:
        yield batch, late, final
        late, final = final, max([final, *(time_of(one) - delay for one in batch)])
