"""Checks of addresses."""

from collections.abc import Mapping
from typing import Final

from hutong.bus.durable.addresses import PREFIX, is_durable
from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.foundation.errors import UsageError

ADDRESS_CHARACTERS_MAX: Final = 1_024


def check_address(address: object) -> None:
    """Raise TypeError or ValueError for an object that is no address."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a string, not {type(address).__name__}")
    if not 1 <= len(address) <= ADDRESS_CHARACTERS_MAX:
        raise ValueError(f"an address has 1 to {ADDRESS_CHARACTERS_MAX} characters, not {len(address)}")


def check_not_durable(address: str) -> None:
    """Raise UsageError for a durable address: publishing there has its own back-pressure."""
    if is_durable(address):
        raise UsageError(
            f"{address!r} is durable: `await bus.publish({address!r}, ...)` waits until the message is stored, "
            "and that is the back-pressure."
        )


def check_registration(address: str, buffered_max: int, durable: Mapping[str, object]) -> None:
    """Raise TypeError or ValueError for arguments with which no consumer can be registered."""
    check_address(address)
    if address.startswith(REPLY_PREFIX):
        raise ValueError(f"addresses that begin with {REPLY_PREFIX!r} are the bus's own")
    if type(buffered_max) is not int or buffered_max < 0:
        raise ValueError(f"max_buffered_messages is a count from 0, not {buffered_max!r}")
    if durable and not is_durable(address):
        raise TypeError(f"{min(durable)} is for durable addresses, which begin with {PREFIX!r}")
