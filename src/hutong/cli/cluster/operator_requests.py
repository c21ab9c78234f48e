"""The console's way to requests that confluent-kafka cannot send: by the client of the pipelines, as `hutong cluster`.

Decides nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import PeerError, ProtocolError, Refused, UsageError
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hutong.pipelines.client.cluster import Cluster

RETRY_MS_MAX: Final = 5_000
"""For a controller that is being elected: a browser waits."""


class ClientOperatorRequests:
    """Implements `hutong.console.nodes.moving.operators.OperatorRequests`."""

    @contextmanager
    def opened(self, properties: Mapping[str, Any]) -> Iterator[OperatorClientConnection]:
        from hutong.cli.cluster.asking import open_cluster_by  # late: few nodes move anything
        from hutong.pipelines.errors import AccessDenied

        named = {name: str(value) for name, value in properties.items() if not callable(value)}
        # The tokens of a login at an OpenID Connect provider (`console/oidc/tokens.py`).
        token = properties["oauth_cb"]("")[0] if "oauth_cb" in properties else None
        try:
            cluster = open_cluster_by(named["bootstrap.servers"], named, token)
        except UsageError as error:
            raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{error} Use `hutong cluster` instead.") from None
        try:
            yield OperatorClientConnection(cluster)
        except AccessDenied:
            message = "The brokers let this user's operators' requests not in, or their certificate is not trusted."
            raise Refused(ErrorCode.SASL_AUTHENTICATION_FAILED, message) from None
        finally:
            cluster.close()


class OperatorClientConnection:
    """Implements `hutong.console.nodes.moving.operators.OperatorConnection`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def ask(self, request: Any) -> Any:
        def attempt() -> Any:
            response = self._cluster.any_connection().request(request, 0)
            if response.error_code:
                raise Refused(response.error_code, response.error_message or "")
            return response

        # Lost connections are tried again, too: each request asks for a state, so twice is as good as once.
        return self._cluster.retrying(attempt, RETRY_MS_MAX)

    def ask_at(self, host: str, port: int, request: Any, version: int) -> Any:
        from hutong.pipelines.client.cluster import BrokerAddress

        return self._cluster.connection_to(BrokerAddress(host, port)).request(request, version)

    def asks_hutong(self) -> bool:
        from hutong.cluster.controller.commands import ShowStatus, encode_command
        from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest

        connection = self._cluster.any_connection()
        try:
            connection.request(ClusterCommandRequest(encode_command(ShowStatus())), 0)
        except ProtocolError:
            return False
        except PeerError as error:
            # Apache Kafka closes a connection at an API that it does not know; silence says nothing.
            if isinstance(error.__cause__, TimeoutError):
                raise
            return False
        return True
