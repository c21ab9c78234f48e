"""Caching in an iterative computation: the links for every round, and now and then the ranks.

Each round is computed from the one before. So the plan grows with every round, and with it the work that Spark must
repeat after a loss. A checkpoint cuts the lineage: it writes the ranks and drops their history.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.rdd import RDD
    from pyspark.sql import DataFrame
    from pyspark.storagelevel import StorageLevel

LEVELS = ("memory and disk", "memory", "disk", "none")


@dataclass(frozen=True, slots=True)
class CachePolicy:
    level: str = LEVELS[0]
    """The storage of the links between rounds, one of `LEVELS`; `none` computes them again for every round."""
    checkpoint_every: int = 0
    """After how many rounds the ranks are cut off from what they came from; 0 never."""
    reliable: bool = False
    """True to write checkpoints to the context's checkpoint folder; on the workers they are lost with a worker."""

    def cuts(self, done: int, rounds: int) -> bool:
        """Return True if there is a checkpoint after round `done`; the last round's ranks are the result."""
        return bool(self.checkpoint_every) and done % self.checkpoint_every == 0 and done < rounds

    def kept_rows(self, frame: "DataFrame") -> "DataFrame":
        level = self._storage_level()
        return frame if level is None else frame.persist(level)

    def kept_rdd(self, rdd: "RDD[Any]") -> "RDD[Any]":
        level = self._storage_level()
        return rdd if level is None else rdd.persist(level)

    def cut_rows(self, frame: "DataFrame") -> "DataFrame":
        return frame.checkpoint() if self.reliable else frame.localCheckpoint()

    def cut_rdd(self, rdd: "RDD[Any]") -> "RDD[Any]":
        kept = self.kept_rdd(rdd)  # or writing it to the folder would compute it once more
        self.mark(kept)
        kept.count()
        return kept

    def mark(self, rdd: "RDD[Any]") -> None:
        """Asks for a checkpoint at the next job, which must be the first on this RDD: later it would do nothing."""
        if self.reliable:
            rdd.checkpoint()
        else:
            rdd.localCheckpoint()

    def _storage_level(self) -> "StorageLevel | None":
        from pyspark.storagelevel import StorageLevel

        levels = (StorageLevel.MEMORY_AND_DISK, StorageLevel.MEMORY_ONLY, StorageLevel.DISK_ONLY, None)
        return dict(zip(LEVELS, levels, strict=True))[self.level]
