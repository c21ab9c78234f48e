"""Makes what reads a cluster in ZooKeeper, where the package for it is installed. Nothing of kazoo is imported before.

Knows nothing of the node's settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.wire.vertx.wire_versions import VERSION_1, VERSION_2, WireVersion

if TYPE_CHECKING:
    from hutong.bus.clustered.membership.zookeeper.looking import ClusterLook
    from hutong.bus.clustered.membership.zookeeper.membership import ZooKeeperMembership


def make_zookeeper_membership(
    address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock, wire: WireVersion = VERSION_2
) -> "ZooKeeperMembership":
    """Raises UsageError where kazoo is missing. Nothing is connected before its `start`.

    The nodes of one version of the wire format have one layout.
    """
    with _needing_kazoo():
        from hutong.bus.clustered.membership.vertx3.membership import Vertx3Membership
        from hutong.bus.clustered.membership.zookeeper.membership import ZooKeeperMembership
    return (Vertx3Membership if wire is VERSION_1 else ZooKeeperMembership)(address, settings, clock)


def make_zookeeper_look(address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock) -> "ClusterLook":
    """Raises UsageError where kazoo is missing. Nothing is connected before its `contents`."""
    with _needing_kazoo():
        from hutong.bus.clustered.membership.zookeeper.looking import ClusterLook
    return ClusterLook(address, settings, clock)


@contextmanager
def _needing_kazoo() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        if error.name is None or not error.name.startswith("kazoo"):
            raise
        message = "A bus over many nodes needs kazoo, which is not installed: pip install 'hutong[zookeeper]'."
        raise UsageError(message, ExitCode.UNAVAILABLE) from None
