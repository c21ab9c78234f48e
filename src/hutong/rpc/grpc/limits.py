"""Bounds of a gRPC server.

Knows nothing of servers.
"""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Bounds above which a call gets RESOURCE_EXHAUSTED, and timeouts. Raises ValueError for invalid ones."""

    message_bytes_max: int = 16 * MEBIBYTE  # of a request and of a response; stock clients accept 4 MiB by default
    connections_max: int = 1_000  # of all clients; one more is closed at once
    handshake_ms: int = 10_000  # for TLS and HTTP/2's first frames; a slower connection is closed
    request_ms: int = 30_000  # from the headers of a call to the last byte of its request
    metadata_bytes_max: int = 16_384  # of a call's metadata, with 32 bytes for each pair (RFC 9113, 6.5.2)
    calls_max: int = 10_000  # under way at a time, streams included
    calls_per_address_max: int = 7_500  # of them, by clients of one address: one client leaves room for others
    streams_per_connection_max: int = 1_000  # calls of one connection; more wait there
    connection_idle_ms: int = 10 * 60_000  # a connection without calls for so long is closed
    keepalive_ms: int = 60_000  # a peer silent for so long gets a keepalive ping
    item_taken_ms: int = 5 * 60_000  # how long a caller may leave an item of a stream untaken
    close_grace_ms: int = 5_000  # how long calls under way may take to end once the server is closed

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is not int or value < (0 if name == "close_grace_ms" else 1):
                raise ValueError(f"{name} of a gRPC server is a whole number of at least 1, not {value!r}")
