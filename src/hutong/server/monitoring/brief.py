"""Figures that a brief page leaves out: those that say nothing new, or nothing yet.

Strategy: a figure that an alert may wait for stays, at zero, too: `increase` and `rate` do not see the first increase
of a counter that was absent. Histograms keep every second bound, so that quantiles can still be estimated of them.

Knows nothing of how figures are read.
"""

from dataclasses import dataclass
from typing import Final

from hutong.server.monitoring.exposition import Family, Samples

HISTOGRAM_STEP: Final = 2  # bounds from one to the next: 4, 16, 64 instead of 2, 4, 8
OF_STAGES: Final = frozenset(
    f"kafka_network_requestmetrics_{stage}ms"
    for stage in (
        "requestqueuetime",
        "localtime",
        "remotetime",
        "throttletime",
        "responsequeuetime",
        "responsesendtime",
    )
)
"""Quantiles of what `hutong_request_stage_seconds_total` has as sums."""
OF_REPLICAS: Final = frozenset(
    f"kafka_topic_partition_{figure}"
    for figure in ("leader", "leader_is_preferred", "replicas", "in_sync_replica", "under_replicated_partition")
)
"""They are the same for all partitions of a node alone, at all times."""
WITHOUT_ZEROS: Final = frozenset({"kafka_network_requestmetrics_requests_total"})
"""One sample for each API of Kafka's, of which a program uses a dozen."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The amount of detail on a page."""

    is_brief: bool
    is_alone: bool = False  # the node is no node of a cluster

    @property
    def histogram_step(self) -> int:
        return HISTOGRAM_STEP if self.is_brief else 1

    def shows(self, family: Family) -> bool:
        """Return False for a family that is left out as a whole."""
        name = family.name
        return not self.is_brief or not (name in OF_STAGES or (self.is_alone and name in OF_REPLICAS))

    def kept(self, family: Family, samples: Samples) -> Samples:
        """The samples without those that are left out."""
        if not self.is_brief or family.name not in WITHOUT_ZEROS:
            return samples
        return [(labels, value) for labels, value in samples if value]
