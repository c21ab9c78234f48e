"""Finds the coordinator of a consumer group or a transactional id, and connects to it (KIP-699 if supported).

Uses its own connections: a coordinator may also lead partitions, and the connection that carries records is seldom
idle. A found coordinator is dropped when it disconnects or answers NOT_COORDINATOR.

Knows nothing of the requests to coordinators.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TypeVar

from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.client.cluster import BrokerAddress, Cluster, raise_refusal
from hutong.pipelines.client.connection import FIND_COORDINATOR, BrokerConnection
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

MANY_KEYS_FROM = 4

T = TypeVar("T")


class CoordinatorKind(IntEnum):
    """Kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """Blocking, for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._found: dict[tuple[CoordinatorKind, str], BrokerAddress] = {}

    def connection(self, kind: CoordinatorKind, key: str) -> BrokerConnection:
        """An idle connection to the coordinator. One attempt: use it inside `retrying`."""
        (connection,) = self.connections(kind, [key])
        return connection

    def connections(self, kind: CoordinatorKind, keys: Iterable[str]) -> dict[BrokerConnection, list[str]]:
        """The keys by their coordinators. One attempt: use it inside `retrying`."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if (kind, key) not in self._found]
        if missing:
            self._find(kind, missing)
        by_address: dict[BrokerAddress, list[str]] = {}
        for key in wanted:
            by_address.setdefault(self._found[kind, key], []).append(key)
        return {self.cluster.connection_to(address): part for address, part in by_address.items()}

    def retrying(self, attempt: Callable[[], T], retry_ms: int | None = None) -> T:
        """As the cluster's; coordinators are looked for anew each time."""

        def once() -> T:
            try:
                return attempt()
            except (Unavailable, Refused):
                self._found.clear()
                raise

        return self.cluster.retrying(once, retry_ms)

    def _find(self, kind: CoordinatorKind, keys: list[str]) -> None:
        connection = self.cluster.any_connection()
        if connection.version_of(FIND_COORDINATOR) >= MANY_KEYS_FROM:
            self._take_many(kind, keys, connection.request(FindCoordinatorRequest("", kind, keys)))
            return
        for key in keys:
            response: FindCoordinatorResponse = connection.request(FindCoordinatorRequest(key, kind))
            raise_refusal(response.error_code, f"the coordinator of {key} is not known")
            self._found[kind, key] = BrokerAddress(response.host, response.port)

    def _take_many(self, kind: CoordinatorKind, keys: list[str], response: FindCoordinatorResponse) -> None:
        for found in response.coordinators:
            raise_refusal(found.error_code, f"the coordinator of {found.key} is not known")
            self._found[kind, found.key] = BrokerAddress(found.host, found.port)
        if any((kind, key) not in self._found for key in keys):
            raise ProtocolError("the broker did not name the coordinator of every key")
