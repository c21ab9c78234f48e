"""The settings of a user for ZooKeeper, apart from its address."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SESSION_MS: Final = 4_000
CONNECT_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """TLS to the servers, whose names are checked. Without `ca` the machine's authorities count."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """`user` is `NAME:PASSWORD` of the digest scheme: the cluster's data can then be seen and changed by it alone.

    `session_ms` is what is asked for; the servers have bounds of their own, of 2 and 20 ticks.
    """

    session_ms: int = SESSION_MS
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    user: str | None = None
    tls: ZooKeeperTls | None = None
