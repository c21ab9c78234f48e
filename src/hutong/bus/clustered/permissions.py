"""Permissions between nodes: where others may send to here, and where they may receive what is sent here.

Strategy: expressions that must match a whole address, as for the clients of a bridge. `inbound` is asked about each
message of another node. A consumer at any other address is not announced, so no node sends there by mistake. `outbound`
is asked about registrations: those of others at any other address count as not there. Replies need no permission: they
go to the node that has asked.

A node is known by the host of its entry. That says who it is where connections check names (`tls`).

Knows no connections.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from hutong.bus.bridge.permissions import AllowedAddresses, Permit


@dataclass(frozen=True, slots=True)
class ClusterPermissions:
    """Regular expressions of addresses; None allows all. `outbound` may name for each the hosts that may receive there.

    An expression without hosts allows every node.
    """

    inbound: Collection[str] | None = None
    outbound: Collection[str] | Mapping[str, Collection[str]] | None = None


class ClusterRights:
    """The permissions of one node. Raises UsageError for an expression that is wrong, or could take long."""

    def __init__(self, permissions: ClusterPermissions) -> None:
        outbound = permissions.outbound
        self._inbound = None if permissions.inbound is None else _allowed(permissions.inbound)
        self._outbound: list[tuple[AllowedAddresses, Collection[str]]] | None = None
        if isinstance(outbound, Mapping):
            self._outbound = [(_allowed([regex]), frozenset(hosts)) for regex, hosts in outbound.items()]
        elif outbound is not None:
            self._outbound = [(_allowed(outbound), ())]

    def may_send_here(self, address: str) -> bool:
        """True where another node may send to the address in this process. Any thread may ask."""
        return self._inbound is None or self._inbound.holds(address)

    def may_receive(self, address: str, host: str) -> bool:
        """True where the node of the host may get what is sent to the address here."""
        if self._outbound is None:
            return True
        return any((not hosts or host in hosts) and allowed.holds(address) for allowed, hosts in self._outbound)


def _allowed(expressions: Collection[str]) -> AllowedAddresses:
    return AllowedAddresses([Permit(regex=each) for each in expressions])


EVERYTHING: Final = ClusterRights(ClusterPermissions())
"""Of a node without permissions."""
