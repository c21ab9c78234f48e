"""Binding of listeners to the addresses of settings, with one error for an address that cannot be used."""

from collections.abc import Awaitable

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.settings import Address


async def bound(address: Address, binding: Awaitable[tuple[str, int]], remedy: str) -> Address:
    """Await the binding, and return the address with the port that was bound. Raises UsageError.

    `remedy` is the option that sets another address, as in "with --kafka".
    """
    try:
        _, port = await binding
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {address}: {error.strerror}; choose another address {remedy}.", ExitCode.UNAVAILABLE
        ) from None
    return Address(address.host, port)
