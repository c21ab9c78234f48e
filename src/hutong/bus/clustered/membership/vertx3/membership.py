"""The membership in a cluster of Vert.x 3: that of one of Vert.x 4 with another session, and without shared data.

Knows nothing of ZooKeeper's data.
"""

from collections.abc import Callable
from random import SystemRandom
from typing import Any

from hutong.bus.clustered.membership.vertx3.session import Vertx3Session
from hutong.bus.clustered.membership.zookeeper.entries import ZooKeeperEntries
from hutong.bus.clustered.membership.zookeeper.membership import ZooKeeperMembership
from hutong.bus.clustered.membership.zookeeper.session import Tell, TellSession
from hutong.cluster.coordinator.zookeeper.client import ZooKeeperClient
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts
from hutong.foundation.errors import UsageError


class NoSharedEntries(ZooKeeperEntries):
    """The entries that nodes share where they share none: every request is refused."""

    async def _ask(self, begin: Callable[[ZooKeeperClient], Any]) -> Any:
        raise UsageError(
            "Counters, locks and maps are not shared in a cluster of Vert.x 3 (cluster_wire_version=1); they need one "
            "of Vert.x 4 or 5, or of Hutong alone."
        )


class Vertx3Membership(ZooKeeperMembership):
    """Started once; `close` it also where the start failed or was cancelled."""

    def _make_entries(self, root: str) -> ZooKeeperEntries:
        return NoSharedEntries(root, SystemRandom())

    def _make_session(self, parts: ConnectionParts, tell: Tell, tell_session: TellSession) -> Vertx3Session:
        return Vertx3Session(parts, tell, tell_session)
