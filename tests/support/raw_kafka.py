"""A client that speaks bytes, from any address of the loopback, and the changes of settings that tests make with it.

Knows nothing of what a test wants to see.
"""

import select
import socket
import struct
from typing import Any, Final

from bench.raw_client import RawConnection, host_and_port
from tests.support.kio_client import KioClient, encode_request

API_VERSIONS: Final = 18
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_CONFIGS: Final = 32
BROKER: Final = 4
SET, DELETE = 0, 1


def ping(correlation_id: int = 1) -> bytes:
    """The smallest request there is."""
    return struct.pack(">ihhih", 10, API_VERSIONS, 0, correlation_id, -1)


class RawClient(RawConnection):
    """One connection from an address of one's own choice."""

    def __init__(self, address: str, source: str = "127.0.0.1", *, kernel_bytes: int | None = None) -> None:
        """`kernel_bytes` is what the kernel keeps for it each way, where that matters."""
        self.socket = socket.socket()
        if kernel_bytes is not None:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self.socket.setsockopt(socket.SOL_SOCKET, option, kernel_bytes)
        self.socket.settimeout(30)
        self.socket.bind((source, 0))
        self.socket.connect(host_and_port(address))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "RawClient":
        return self

    @property
    def name(self) -> tuple[str, int]:
        host, port = self.socket.getsockname()[:2]
        return host, port

    def ping(self, correlation_id: int = 1) -> None:
        """One request, and its answer."""
        assert self.call(ping(correlation_id))[4:8] == correlation_id.to_bytes(4, "big")

    def has_answer(self) -> bool:
        """True if something can be read now, which may be the end."""
        return bool(select.select([self.socket], [], [], 0)[0])


class Admin(KioClient):
    """Changes settings of the node and quotas of clients, and takes back what it changed (`undo`)."""

    def __init__(self, address: str, node_id: str = "1") -> None:
        super().__init__(address)
        self._node_id = node_id
        self._settings: set[str] = set()
        self._quotas: set[tuple[str, str | None, str]] = set()

    def __exit__(self, *_: object) -> None:
        self.undo()
        self.close()

    def set(self, name: str, value: str | None, resource: str | None = None) -> int:
        """Set a setting of the node, or take it back (None); the error code."""
        self._settings.add(name)
        change = {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
        where = self._node_id if resource is None else resource
        asked = {"resource_type": BROKER, "resource_name": where, "configs": [change]}
        (answer,) = self.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked]).responses
        return int(answer.error_code)

    def setting(self, name: str) -> Any:
        """The answer of DescribeConfigs for it."""
        asked = {"resource_type": BROKER, "resource_name": self._node_id, "configuration_keys": [name]}
        (answer,) = self.call(DESCRIBE_CONFIGS, 4, resources=[asked]).results
        (config,) = answer.configs
        return config

    def quota(self, kind: str, name: str | None, key: str, value: float | None) -> None:
        """Set a quota of an entity, or take it back."""
        self._quotas.add((kind, name, key))
        op = {"key": key, "value": value or 0.0, "remove": value is None}
        entity = [{"entity_type": kind, "entity_name": name}]
        (entry,) = self.call(ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": [op]}]).entries
        assert not entry.error_code, entry

    def undo(self) -> None:
        for name in self._settings:
            self.set(name, None)
        for kind, entity, key in self._quotas:
            self.quota(kind, entity, key, None)


def request(api_key: int, api_version: int, correlation_id: int = 1, **values: Any) -> bytes:
    return encode_request(api_key, api_version, correlation_id, values)
