"""The batches of pipelines that have read the records of a trail.

Decides nothing. Blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.console.limits import TRAIL_BATCHES_MAX
from hutong.console.streams import event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.console.pipelines.pipeline_facts import PipelineFacts
    from hutong.console.trail.machine import Hop


class TrailBatches:
    """Remembers the places of a trail, and tells their batches once: files are read through for all of them."""

    def __init__(self, pipelines: PipelineFacts | None) -> None:
        """Without `pipelines`, or for a user that may not see them, there are none."""
        self._pipelines = pipelines
        self._places: list[tuple[str, int, int]] = []
        self.is_cut = False

    def add(self, hops: Iterable[Hop]) -> None:
        self._places += ((hop.record.topic, hop.record.partition, hop.record.offset) for hop in hops)

    def tell(self) -> list[bytes]:
        """The events; none of a second call."""
        if self._pipelines is None or not self._places:
            return []
        found, is_cut = self._pipelines.batches(self._places)
        self._places = []
        found.sort(key=lambda batch: batch["started_ms"])
        self.is_cut = is_cut or len(found) > TRAIL_BATCHES_MAX
        return [event("batch", batch) for batch in found[:TRAIL_BATCHES_MAX]]
