"""The parts of the broker that handlers of topics and of the cluster use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.quotas.meter import MeteredParts
from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.admin_state import AdminState
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import BrokerSettings, NodeIdentity, NodeStorage
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock


class TopicParts(RightsParts, MeteredParts, Protocol):
    """Topics, and what their descriptions and changes are answered with."""

    admin: AdminState
    clock: Clock
    cluster: ClusterView
    identity: NodeIdentity
    settings: BrokerSettings
    storage: NodeStorage
    topics: Topics
