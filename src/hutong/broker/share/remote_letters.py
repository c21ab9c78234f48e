"""Dead letters for topics whose partitions other nodes lead: Kafka's own requests to those nodes, in this node's name.

Knows nothing of what the letters say. A node alone never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.coordinators.other_nodes import ask_kafka
from hutong.broker.produce.remote_appends import append_remotely
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.topics.partition import Partition

METADATA_VERSION: Final = 9
_NOT_MADE: Final = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The dead-letter topic is being created.")


class RemoteLetters:
    """Writes batches to partitions that other nodes lead, and has the controller create topics."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    @property
    def creates_here(self) -> bool:
        """True while this node creates topics itself."""
        return self._cluster.is_controller

    def append(self, partition: Partition, batch: bytes, then: Continuation[None]) -> None:
        """Append a batch; `then` gets None once all replicas in sync have it."""
        append_remotely(
            self._cluster,
            partition,
            batch,
            lambda outcome: then(outcome if isinstance(outcome, HutongError) else None),
        )

    def create(self, topic: str, then: Continuation[None]) -> None:
        """Have the controller create a topic; `then` always gets an error: this node knows the topic a little later."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)

        def answered(outcome: MetadataResponse | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else _NOT_MADE)

        ask_kafka(self._cluster, self._cluster.controller_id, request, METADATA_VERSION, answered)
