"""The parts of the broker that handlers of share groups use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import BrokerSettings, NodeIdentity
    from hutong.broker.share.share_fetches import ShareFetches
    from hutong.broker.share.share_sessions import ShareSessions
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock
    from hutong.groups.classic.driver import GroupCoordinator
    from hutong.groups.share.delivery.driver import Deliveries
    from hutong.groups.share.driver import ShareCoordinator


class ShareParts(RightsParts, Protocol):
    """Share groups, their sessions and fetches, and topics."""

    clock: Clock
    cluster: ClusterView
    groups: GroupCoordinator
    identity: NodeIdentity
    settings: BrokerSettings
    share_deliveries: Deliveries
    share_fetches: ShareFetches
    share_groups: ShareCoordinator
    share_sessions: ShareSessions
    topics: Topics
