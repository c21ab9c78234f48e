"""The coordinator: the service that says who is alive, and that agrees on one small value by compare-and-set.

    embedded    one process: `memory`
    ZooKeeper   `zookeeper`, by kazoo
    simulated   `memory` again, in virtual time, with sessions that are lost

Strategy: it decides two things only, who is alive and who leads the metadata group. So an outage of it stops elections
of that one group, and nothing else. All calls back come on the node's loop, never within a call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hutong.foundation.errors import ExitCode, UsageError
from hutong.foundation.waiting.pending import Continuation


@dataclass(frozen=True, slots=True)
class NodeRegistration:
    """A node as it has registered itself. `incarnation` names one life of its process, drawn by chance (KIP-903).

    `description` is JSON: addresses, rack, version (`cluster/nodes.py`).
    """

    node: int
    incarnation: int
    description: bytes


@dataclass(frozen=True, slots=True)
class CoordinatorRegister:
    """The one value that all agree on. The version is 0 while nothing was ever written."""

    version: int
    value: bytes


def other_cluster(place: object, own_id: str, cluster_id: str) -> UsageError:
    """The error of a node that has records of one cluster, and names the coordinator of another one."""
    return UsageError(
        f"This node's data folder belongs to the cluster {own_id}, and {place} has the cluster {cluster_id}; choose "
        "another folder with --data-dir, or name the right cluster with --cluster.",
        ExitCode.CONFIG,
    )


class SessionState(Enum):
    """Suspended is not lost: the registration may still be there, and nothing new is heard meanwhile."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class CoordinatorListener(Protocol):
    """The receiver of news. Each call gives the whole present state; the same may come twice."""

    def members_changed(self, members: Mapping[int, NodeRegistration]) -> None:
        """Note all nodes that are registered now."""

    def register_changed(self, register: CoordinatorRegister) -> None: ...

    def session_changed(self, state: SessionState) -> None:
        """Note the state of this node's session. After a loss the coordinator registers the node anew by itself."""


class Coordinator(Protocol):
    """One node's session with the service."""

    @property
    def session_ms(self) -> int:
        """The time between the death of a process and the end of its registration."""
        ...

    async def start(
        self, registration: NodeRegistration, cluster_id: str, listener: CoordinatorListener, *, may_join: bool = True
    ) -> str:
        """Register this node, and call `listener` from now on. Returns the cluster's id: `cluster_id` if it is new.

        Without `may_join` this node has records of the cluster `cluster_id`, and is refused by any other one.

        Raises UsageError: nobody answers there, the place holds another program's data, another process has this node
        number (after waiting a session for one that died).
        """
        ...

    def describe(self, description: bytes) -> None:
        """Replace the description of this node in its registration, now and after each registration anew."""
        ...

    def compare_and_set(self, version: int, value: bytes, then: Continuation[CoordinatorRegister]) -> None:
        """Write the register if it has this version still; `then` gets what was written.

        Refused where it has another one, CoordinatorUnavailable while nobody answers: then it may have been written.
        """
        ...

    async def close(self) -> None:
        """Give the registration back, and end the session. No call back comes after it."""
        ...
