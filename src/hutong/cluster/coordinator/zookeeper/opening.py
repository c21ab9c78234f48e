"""Makes a coordinator by ZooKeeper, where the package for it is installed. Nothing of kazoo is imported before.

Knows nothing of the node's settings.
"""

from typing import TYPE_CHECKING

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.cluster.coordinator.zookeeper.coordinator import ZooKeeperCoordinator


def make_zookeeper_coordinator(
    address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock
) -> "ZooKeeperCoordinator":
    """Raises UsageError where kazoo is missing. Nothing is connected before its `start`."""
    try:
        from hutong.cluster.coordinator.zookeeper.coordinator import ZooKeeperCoordinator
    except ImportError as error:
        if error.name is None or not error.name.startswith("kazoo"):
            raise
        message = "A cluster by ZooKeeper needs kazoo, which is not installed: pip install 'hutong[zookeeper]'."
        raise UsageError(message, ExitCode.UNAVAILABLE) from None
    return ZooKeeperCoordinator(address, settings, clock)
