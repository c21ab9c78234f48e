"""The parts of the broker that handlers of settings, ACLs, quotas and features use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.admin_state import AdminState
    from hutong.broker.dispatch.long_requests import LongRequests
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import NodeIdentity
    from hutong.broker.telemetry.receiver import Telemetry
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock
    from hutong.groups.configs import GroupConfigs


class AdminParts(RightsParts, Protocol):
    """State that administrators see and change."""

    admin: AdminState
    api_keys: tuple[int, ...]
    clock: Clock
    cluster: ClusterView
    group_configs: GroupConfigs
    identity: NodeIdentity
    long_requests: LongRequests
    telemetry: Telemetry | None
    topics: Topics
