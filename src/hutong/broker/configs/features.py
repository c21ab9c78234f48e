"""Features (KIP-584): which cluster-wide behaviours this node can have, and which of them are switched on.

A feature is a name with a range of levels. What a node supports is a fact of its code; the level that is *finalized*
is what clients may count on: with `transaction.version` 2 a Java producer leaves AddPartitionsToTxn out, for one. The
levels are those that `kafka-storage format` of Kafka 4.3 finalizes without options.

Knows nothing of requests. A level of 0 means that the feature is off; it is then not among the finalized ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.foundation.waiting.pending import Continuation

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: the levels this node can work at, and the level of a new cluster."""

    name: str
    level_min: int
    level_max: int
    level_default: int


METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"

SUPPORTED: Final = {
    feature.name: feature
    for feature in (
        Feature(GROUP_VERSION, 0, 1, 1),
        Feature("kraft.version", 0, 1, 0),
        Feature(METADATA_VERSION, 7, 30, 30),  # 3.3-IV3 to 4.3-IV0
        Feature(SHARE_VERSION, 0, 1, 1),
        Feature(STREAMS_VERSION, 0, 1, 1),
        Feature(TRANSACTION_VERSION, 0, 2, 2),
        Feature("eligible.leader.replicas.version", 0, 1, 1),
    )
}


class Features:
    """The finalized levels of this cluster. `epoch` rises with every change, so that clients can tell old from new."""

    def __init__(self) -> None:
        self.supported = dict(SUPPORTED)
        self._table = DurableTable("feature/", len(SUPPORTED))
        self._table.on_change.append(self._changed)
        self._levels = {feature.name: feature.level_default for feature in SUPPORTED.values()}
        self._epoch_given = 1  # of the newest change on its way
        self.epoch = 1
        self.replay = self._table.replay

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def level(self, name: str) -> int:
        """The finalized level, 0 where the feature is off or unknown."""
        return self._levels.get(name, 0)

    def finalized(self) -> dict[str, int]:
        """Name and level of every feature that is on."""
        return {name: level for name, level in self._levels.items() if level}

    def update(self, name: str, level: int, then: Continuation[None]) -> None:
        """Finalize another level of a supported feature; `then` is called once that is durable."""
        self._epoch_given = max(self._epoch_given, self.epoch) + 1
        self._table.put(name, {"level": level, "epoch": self._epoch_given}, then)

    def _changed(self, name: str, entry: dict[str, int] | None) -> None:
        if entry is not None and name in SUPPORTED:
            self._levels[name] = min(entry["level"], self.supported[name].level_max)
            self.epoch = max(self.epoch, entry["epoch"])
