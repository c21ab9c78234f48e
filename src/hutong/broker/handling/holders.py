"""The client whose share of a common bound a request counts against, over all its connections and client ids.

Strategy: a client that has shown who it is counts as its principal, from wherever it comes. One that has not counts as
its address; in IPv6 as its /64, since one host has all addresses of such a network. Client ids and connections are the
client's own choice, so they do not count.

Knows nothing of bounds (`foundation.fair_shares`).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from hutong.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.security.principals import Principal

HOST_PREFIX_V6: Final = 64


def holder_of(context: RequestContext[object]) -> str:
    """The client that asks."""
    return holder_name(context.principal, context.session.address)


def holder_name(principal: Principal, address: str) -> str:
    """The same by what is known of a connection."""
    if principal != ANONYMOUS:
        return str(principal)
    if ":" not in address:
        return address
    host = ipaddress.IPv6Address(address.partition("%")[0])
    mapped = host.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    return str(ipaddress.IPv6Network((host, HOST_PREFIX_V6), strict=False))
