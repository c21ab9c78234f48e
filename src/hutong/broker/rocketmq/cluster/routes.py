"""Routes: the brokers that clients hear of, for one node or several.

    alone        `hutong`, to read and write, with this node as its master (number 0)
    in a cluster `hutong`, to read: the node that was asked is the master, every node N has the number N + 1
                 `hutong-N`, to write, for each node; and to pop what that leads

All brokers have all queues, and each node takes commands for all of them: those for another node are handed over.

Strategy: a producer sends by all nodes in turn, and at once by the next one where a node is gone. A consumer has each
queue once; the answer to a pull names the number of the node that leads the queue, which it asks from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.bodies import BrokerData, QueueData, TopicRouteData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Topic

MASTER: Final = 0
READ: Final = 4
WRITE: Final = 2


def own_broker_id(context: RocketContext) -> int:
    """The number by which consumers ask this node."""
    broker = context.parts.broker
    return MASTER if broker.cluster.is_alone else broker.identity.node_id + 1


def brokers_of(context: RocketContext) -> Mapping[str, tuple[BrokerData, int]]:
    """The brokers by their names, each with its rights to read and write."""
    identity, cluster = context.parts.identity, context.parts.broker.cluster
    name, own = identity.broker_name, f"{identity.host}:{identity.port}"
    if cluster.is_alone:
        return {name: (BrokerData(identity.cluster_name, name, {MASTER: own}), READ | WRITE)}
    # Without those that have just gone: clients ask for routes every 30 s, and would send there meanwhile.
    nodes = {node.node_id: f"{node.host}:{node.port}" for node in cluster.live_nodes(context.parts.listener)}
    # It may not have heard of itself yet.
    nodes[context.parts.broker.identity.node_id] = own
    readers = {MASTER: own, **{node + 1: address for node, address in sorted(nodes.items())}}
    brokers = {name: (BrokerData(identity.cluster_name, name, readers), READ)}
    for node, address in sorted(nodes.items()):
        writer = _writer(name, node)
        brokers[writer] = (BrokerData(identity.cluster_name, writer, {MASTER: address}), WRITE)
    return brokers


def leading_brokers(context: RocketContext, topic: Topic) -> list[str]:
    """The names of the brokers at which a topic is popped: of the nodes that lead its queues. Raises Refused."""
    name = context.parts.identity.broker_name
    if context.parts.broker.cluster.is_alone:
        return [name]
    leaders = sorted({partition.standing.leader for partition in topic.partitions} - {NO_LEADER})
    # Without any the client keeps what it has, and asks again.
    if not leaders:
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Nobody leads {topic.name} at this moment.")
    return [_writer(name, node) for node in leaders]


def route_of(context: RocketContext, queues: int, further_rights: int = 0) -> TopicRouteData:
    """The route of a topic, by the number of its queues."""
    brokers = brokers_of(context)
    return TopicRouteData(
        # Both numbers, whatever the rights: clients take the smaller one for a topic that is created by sending.
        [QueueData(name, queues, queues, rights | further_rights) for name, (_, rights) in brokers.items()],
        [broker for broker, _ in brokers.values()],
    )


def route_to(context: RocketContext, broker_name: str) -> TopicRouteData | None:
    """The route to one broker, of one queue; None if there is none of that name.

    Each of RocketMQ's brokers has a topic of its own name, by whose route its proxy finds it.
    """
    found = brokers_of(context).get(broker_name)
    if found is None:
        return None
    broker, rights = found
    return TopicRouteData([QueueData(broker_name, 1, 1, rights)], [broker])


def _writer(broker_name: str, node: int) -> str:
    return f"{broker_name}-{node}"
