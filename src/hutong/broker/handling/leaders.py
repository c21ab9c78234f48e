"""Refusals that name the leader with its address, so that the client need not look for it (KIP-951).

Knows nothing of who leads: that is in the standing of the partition group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.wire.kafka.apis.shared import LeaderIdAndEpoch, NodeEndpoint, ShareLeader

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView, NodeAddress
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.handling.node_facts import NodeIdentity
    from hutong.broker.topics.group_standing import GroupStanding


class HasCluster(Protocol):
    """The part of the broker that knows all nodes."""

    cluster: ClusterView
    identity: NodeIdentity


class NamingLeader(Protocol):
    """The result for a partition that is led elsewhere."""

    current_leader: LeaderIdAndEpoch


class NamingShareLeader(Protocol):
    """The same for a partition of a share group."""

    current_leader: ShareLeader


class NamingEndpoints(Protocol):
    """The response that it is a part of. In versions before these fields neither is sent."""

    node_endpoints: list[NodeEndpoint]


def put_leader(
    result: NamingLeader, standing: GroupStanding, answer: NamingEndpoints, context: RequestContext[HasCluster]
) -> None:
    """Name the leader in a refusal, unless it is this node, which does not serve the partition yet."""
    if _put_endpoint(standing, answer, context):
        result.current_leader = LeaderIdAndEpoch(standing.leader, standing.leader_epoch)


def put_share_leader(
    result: NamingShareLeader, standing: GroupStanding, answer: NamingEndpoints, context: RequestContext[HasCluster]
) -> None:
    """`put_leader` for share groups."""
    if _put_endpoint(standing, answer, context):
        result.current_leader = ShareLeader(standing.leader, standing.leader_epoch)


def _put_endpoint(standing: GroupStanding, answer: NamingEndpoints, context: RequestContext[HasCluster]) -> bool:
    """Add the leader's address. False where there is none to name."""
    address = address_of(context.broker.cluster, context.listener, standing.leader)
    if address is None or standing.leader == context.broker.identity.node_id:
        return False
    # A request of many partitions names each leader once.
    if all(known.node_id != address.node_id for known in answer.node_endpoints):
        answer.node_endpoints.append(NodeEndpoint(address.node_id, address.host, address.port, address.rack))
    return True


def address_of(cluster: ClusterView, listener: Listener, node: int) -> NodeAddress | None:
    """The address of a live node for clients of this listener."""
    return next((each for each in cluster.nodes(listener) if each.node_id == node), None)
