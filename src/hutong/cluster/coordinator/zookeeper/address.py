"""The address of an ensemble and of a place in it: `zk://HOST:PORT,HOST:PORT/PATH`.

Knows nothing of how it is reached.
"""

from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError

SCHEME: Final = "zk://"
EXAMPLE: Final = "zk://zk1:2181,zk2:2181,zk3:2181/hutong"
SERVERS_MAX: Final = 64
_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """One server of the ensemble. An IPv6 address has no brackets here."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """The servers, and the path below which the cluster keeps its data: `/` or one without a slash at its end."""

    servers: tuple[ZooKeeperServer, ...]
    path: str

    @property
    def hosts(self) -> str:
        """The servers as ZooKeeper's clients write them."""
        return ",".join(map(str, self.servers))

    def __str__(self) -> str:
        return f"{SCHEME}{self.hosts}{self.path}"


def parse_zookeeper_address(text: str, example: str = EXAMPLE) -> ZooKeeperAddress:
    """Raises UsageError with what is wrong and the example."""
    try:
        return _parsed(text)
    except ValueError as error:
        message = f"The coordinator's address {text!r} {error}; write it as {example}."
        raise UsageError(message, ExitCode.CONFIG) from None


def _parsed(text: str) -> ZooKeeperAddress:
    """Raises ValueError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() != "zk":
        raise ValueError(f"does not begin with {SCHEME}")
    hosts, slash, path = rest.partition("/")
    servers = tuple(_server(part.strip()) for part in hosts.split(","))
    if len(servers) > SERVERS_MAX:
        raise ValueError(f"has more than {SERVERS_MAX} servers")
    return ZooKeeperAddress(servers, _path(slash + path))


def _server(part: str) -> ZooKeeperServer:
    if not part:
        raise ValueError("lacks a server")
    if "@" in part:
        raise ValueError("has a user, which is a setting of its own")
    host, _, port = part.rpartition(":")
    if not host or part.endswith("]"):
        raise ValueError(f"has no port behind {part}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    # Without brackets "::1:2181" could be an address without a port (RFC 3986, section 3.2.2).
    elif ":" in host:
        raise ValueError(f"has an IPv6 address without brackets, {part}")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _PORT_MAX:
        raise ValueError(f"has a server {part} that is not HOST:PORT with a port from 1 to {_PORT_MAX}")
    return ZooKeeperServer(host, int(port))


def _path(path: str) -> str:
    """ZooKeeper's own rules for paths: no empty part, no `.` or `..`, nothing that cannot be printed."""
    path = path.rstrip("/")
    parts = path.split("/")[1:]
    if any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise ValueError(f"has a path {path} with an empty part, a part of dots, or something that cannot be printed")
    if parts[:1] == ["zookeeper"]:
        raise ValueError("has a path in /zookeeper, which is ZooKeeper's own")
    return path or "/"
