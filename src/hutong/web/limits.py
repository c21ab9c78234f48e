"""Bounds of HTTP by name: of one connection's engine, and of a server.

Decides nothing.
"""

from dataclasses import dataclass, fields
from typing import Final

from hutong.reactor.limits import ReactorLimits

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE
REQUESTS_PER_TURN_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of one connection. Raises ValueError for a bound below one."""

    head_bytes_max: int = 16 * KIBIBYTE  # of a request's line and headers
    body_bytes_max: int = MEBIBYTE  # of a request's body, and of a WebSocket message

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Bounds of one server. Raises ValueError for a bound below one."""

    http: HttpLimits = HttpLimits()
    connections_max: int = 1_000
    connections_per_ip_max: int = 1_000
    receiving_bytes_max: int = 256 * MEBIBYTE  # of unfinished requests of all connections together
    unsent_bytes_max: int = 256 * KIBIBYTE  # of one connection, above which a streamed answer waits
    idle_ms_max: int = 120_000  # of a connection that carries nothing
    request_ms_max: int = 10_000  # for a request to arrive; a body earns a second more with each 16 KiB
    closing_ms_max: int = 2_000  # for the client to read what was written before the close
    drain_ms_max: int = 2_000  # for requests in flight when the server stops

    def reactor(self) -> ReactorLimits:
        """The same as bounds of an acceptor."""
        return ReactorLimits(
            connections_max=self.connections_max,
            connections_per_ip_max=self.connections_per_ip_max,
            frame_bytes_max=self.http.body_bytes_max,
            receiving_bytes_max=self.receiving_bytes_max,
            requests_in_flight_max=REQUESTS_PER_TURN_MAX,
            unsent_bytes_max=self.unsent_bytes_max,
            idle_ms_max=self.idle_ms_max,
            frame_ms_max=self.request_ms_max,
            closing_ms_max=self.closing_ms_max,
            drain_ms_max=self.drain_ms_max,
        )
