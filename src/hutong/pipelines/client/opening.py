"""Opens connections: TCP, then TLS and a login where the settings ask for them.

The order is fixed, so that no password leaves before the broker has shown its certificate.
"""

import secrets
import socket

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.cluster import ClusterSettings
from hutong.pipelines.client.connection import BrokerConnection
from hutong.pipelines.client.sasl import log_in
from hutong.pipelines.client.tls import shake_hands
from hutong.pipelines.errors import AccessDenied, Unavailable


def connect(host: str, port: int, settings: ClusterSettings) -> BrokerConnection:
    """A connection that may be used at once. Raises Unavailable, AccessDenied, UsageError, or ProtocolError."""
    peer = f"{host}:{port}"
    try:
        transport = socket.create_connection((host, port), settings.connect_timeout_ms / 1000)
    except OSError as error:
        raise Unavailable(f"no broker answers at {peer}: {error.strerror or error}") from error
    transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.security.tls is not None:
        transport = shake_hands(transport, host, peer, settings.security.tls)
    transport.settimeout(settings.request_timeout_ms / 1000)
    connection = BrokerConnection(transport, peer)
    try:
        _negotiate(connection, settings)
        if settings.security.login is not None:
            session_ms = log_in(connection, settings.security.login, _nonce)
            connection.ends_after(session_ms, SystemClock())
    except (ProtocolError, Unavailable, AccessDenied):
        connection.close()
        raise
    return connection


def _negotiate(connection: BrokerConnection, settings: ClusterSettings) -> None:
    """Ask for the broker's versions. A TLS listener closes a plain connection without an answer."""
    try:
        connection.negotiate()
    except Unavailable as error:
        if settings.security.tls is not None or isinstance(error.__cause__, TimeoutError):
            raise
        raise Unavailable(f"{error} (if that port wants TLS, set kafka.security.protocol)") from error


def _nonce() -> str:
    return secrets.token_urlsafe(24)
