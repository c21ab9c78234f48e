"""Every bound of the SockJS transport, by name. Those of the event bus behind it are `hutong.bus.bridge.limits`."""

from dataclasses import dataclass, fields
from typing import Final

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class SockJSLimits:
    """Bounds of one server and of each of its sessions. Raises ValueError for a bound below one."""

    connections_max: int = 10_000
    connections_per_ip_max: int = 10_000
    sessions_max: int = 10_000  # of the fall-backs, lost and closed ones that are still remembered among them
    sessions_per_address_max: int = 5_000  # of these, so that no one address keeps all others out
    head_bytes_max: int = 16 * KIBIBYTE  # of a request's line and headers
    message_bytes_max: int = (
        MEBIBYTE  # of a request's body, and of a WebSocket message: arrays of messages, all of them
    )
    frame_characters_max: int = 256 * KIBIBYTE  # of one message; a longer one closes its session
    response_bytes_max: int = 128 * KIBIBYTE  # after which a streaming response ends and the client opens the next
    buffered_bytes_max: int = 256 * KIBIBYTE  # waiting in a session, above which its registrations are paused
    heartbeat_ms: int = 25_000  # between what is sent on an open connection
    disconnect_ms: int = 5_000  # without a connection, after which a session ends; a closed one is remembered as long
    ping_timeout_ms: int = 10_000  # without a message of the client, after which its session is closed
    head_ms_max: int = 10_000  # for a request to arrive; a body earns a second more with each 16 KiB
    idle_ms_max: int = 60_000  # of a connection that carries nothing

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")
        if self.idle_ms_max <= self.heartbeat_ms:
            raise ValueError("idle_ms_max must be above heartbeat_ms, or heartbeats come too late")
