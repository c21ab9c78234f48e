"""Every bound of a bridge, by name. Defaults follow Vert.x's SockJSBridgeOptions where those have one."""

from dataclasses import dataclass, fields
from typing import Final

from hutong.bus.bridge.permissions import ADDRESS_CHARACTERS_MAX
from hutong.wire.vertx.codes import Dialect

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class BridgeLimits:
    """Bounds of one bridge and of each of its clients. Raises ValueError for a bound below one."""

    address_characters_max: int = ADDRESS_CHARACTERS_MAX
    reply_address_characters_max: int = ADDRESS_CHARACTERS_MAX
    handlers_max: int = 1000  # registrations of one client
    requests_open_max: int = 10_000  # of one client, not yet answered
    replies_owed_max: int = 10_000  # messages given to one client that it may still answer
    reply_timeout_ms: int = 30_000  # how long it may
    buffered_messages_max: int = 100  # of one registration while its client does not read
    unsent_bytes_max: int = MEBIBYTE  # of one client, above which its registrations are paused
    slow_client_ms_max: int = 30_000  # how long it may stay so
    frame_bytes_max: int = 256 * KIBIBYTE  # of a client; as large as Vert.x takes websocket messages

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")
        if self.address_characters_max > ADDRESS_CHARACTERS_MAX:
            raise ValueError(f"address_characters_max must be at most {ADDRESS_CHARACTERS_MAX}")


def default_limits(dialect: Dialect) -> BridgeLimits:
    """SockJS's reply addresses are UUIDs and no longer."""
    return BridgeLimits() if dialect is Dialect.TCP else BridgeLimits(reply_address_characters_max=36)
