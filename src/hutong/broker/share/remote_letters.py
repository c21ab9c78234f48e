"""Dead letters for topics whose partitions other nodes lead: Kafka's own requests to those nodes, in this node's name.

Knows nothing of what the letters say. A node alone never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.produce.remote_appends import append_remotely
from hutong.broker.topics.internal_topics import OwnTopic
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Continuation

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.broker.topics.topic_creation import TopicCreation


class RemoteLetters:
    """Writes batches to partitions that other nodes lead, and has the controller create topics."""

    def __init__(self, cluster: ClusterView, creation: TopicCreation) -> None:
        self._cluster = cluster
        self._creation = creation

    def append(self, partition: Partition, batch: bytes, then: Continuation[None]) -> None:
        """Append a batch; `then` gets None once all replicas in sync have it."""
        append_remotely(
            self._cluster,
            partition,
            batch,
            lambda outcome: then(outcome if isinstance(outcome, HutongError) else None),
        )

    def create(self, topic: str, partition_count: int, then: Continuation[Topic]) -> None:
        """Have the controller create a topic; `then` gets it once this node knows it."""
        self._creation.get_or_create_own(OwnTopic(topic, partition_count), then)
