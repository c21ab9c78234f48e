"""What the controller is told of the nodes that are alive."""

from hutong.cluster.nodes import ClusterNode, DiskSpace, HostPort, NodeDescription
from hutong.server.cluster.control import live_nodes

PEER = HostPort("127.0.0.1", 9_000)


def test_the_controller_hears_of_lives_racks_disks_and_reach() -> None:
    space = DiskSpace(100, 50)
    described = NodeDescription(PEER, {}, rack="east", disk=space, origin=7)
    nodes = {1: ClusterNode(1, 10, described), 2: ClusterNode(2, 20, NodeDescription(PEER, {}))}
    first, second = live_nodes(nodes, {2}).values()
    assert (first.incarnation, first.rack, first.disk, first.origin, first.is_reached) == (10, "east", space, 7, True)
    assert (second.incarnation, second.rack, second.disk, second.origin, second.is_reached) == (
        20,
        None,
        None,
        None,
        False,
    )
