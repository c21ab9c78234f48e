"""Makes a membership by ZooKeeper, where the package for it is installed. Nothing of kazoo is imported before.

Knows nothing of the node's settings.
"""

from typing import TYPE_CHECKING

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.bus.clustered.membership.zookeeper.membership import ZooKeeperMembership


def make_zookeeper_membership(
    address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock
) -> "ZooKeeperMembership":
    """Raises UsageError where kazoo is missing. Nothing is connected before its `start`."""
    try:
        from hutong.bus.clustered.membership.zookeeper.membership import ZooKeeperMembership
    except ImportError as error:
        if error.name is None or not error.name.startswith("kazoo"):
            raise
        message = "A bus over many nodes needs kazoo, which is not installed: pip install 'hutong[zookeeper]'."
        raise UsageError(message, ExitCode.UNAVAILABLE) from None
    return ZooKeeperMembership(address, settings, clock)
