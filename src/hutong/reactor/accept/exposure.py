"""Exposure: the rule for listeners that other machines can reach.

Strategy: refused at start, not warned of, where it has no TLS and no setting allows it: a node that is bound to
a network by mistake is found by a scanner before it is found by its owner. A name counts as another machine's, as it
may resolve to any address tomorrow, unless it is `localhost`.

Knows nothing of sockets.
"""

import ipaddress
import logging
from collections.abc import Collection
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError

ALL: Final = "all"
KINDS: Final = (
    "kafka",
    "rocketmq",
    "http",
    "schema-registry",
    "console",
    "metrics",
    "tcp-bridge",
    "sockjs",
    "rpc",
    "grpc",
    "bus",
)
_log = logging.getLogger("hutong.node")


def is_local(host: str) -> bool:
    """True when only this machine can connect; an empty host means every interface."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_kinds(kinds: Collection[str]) -> None:
    """Raises UsageError for a kind of listener that there is not."""
    odd = next((kind for kind in kinds if kind not in KINDS and kind != ALL), None)
    if odd is not None:
        raise UsageError(
            f"security.allow_plain has {odd[:100]!r}; choose from {', '.join(KINDS)} or {ALL}.", ExitCode.CONFIG
        )


def check_exposure(kind: str, place: str, host: str, *, has_tls: bool, allowed: Collection[str]) -> None:
    """Raises UsageError where the listener at `place` is not to be opened; logs one that a setting allows."""
    if has_tls or is_local(host):
        return
    if kind not in allowed and ALL not in allowed:
        raise UsageError(
            f"{place} would be open to the network without TLS: whoever is on it could read and change all that passes."
            f" Use TLS (docs/security.md), listen on 127.0.0.1, or say --allow-plain {kind} "
            f"(security.allow_plain).",
            ExitCode.CONFIG,
        )
    _log.warning("%s is open to the network without TLS: whoever is on it can read and change all that passes.", place)
