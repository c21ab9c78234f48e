"""Permissions of a bridge: clients may use no address unless it is permitted.

Strategy: two lists, one for what clients send into the bus and one for what they hear from it. An entry is an address
or a regular expression that must match the whole address. An empty list allows nothing. A reply to what was let through
needs no permission; that is the session's knowledge (`machine`), not a matter of addresses.

An address of more than ADDRESS_CHARACTERS_MAX characters is never allowed, so that no expression is asked about a long
text (`patterns` has the rules for expressions). Decisions are remembered, a bounded number of them.

Knows nothing of clients, frames or the bus.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hutong.bus.bridge.patterns import compile_pattern
from hutong.foundation.errors import LimitExceeded

ADDRESS_CHARACTERS_MAX: Final = 200
PERMITS_MAX: Final = 1000  # in one direction
_REMEMBERED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Permit:
    """Either `address`, exactly, or `regex`, matched with the whole address. Raises ValueError for both or neither."""

    address: str | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        if (self.address is None) == (self.regex is None):
            raise ValueError("a permit names an address or a regular expression")


class Permissions:
    """The rules for each direction. A direction without rules denies everything.

    Raises UsageError for an expression that is wrong or could take long, LimitExceeded for more than PERMITS_MAX.
    """

    def __init__(self, inbound: Iterable[Permit] = (), outbound: Iterable[Permit] = ()) -> None:
        self._inbound = AllowedAddresses(inbound)
        self._outbound = AllowedAddresses(outbound)

    def allows_in(self, address: str) -> bool:
        """True when a client may send or publish there."""
        return self._inbound.holds(address)

    def allows_out(self, address: str) -> bool:
        """True when a client may receive from there."""
        return self._outbound.holds(address)


class AllowedAddresses:
    """One direction. Raises UsageError and LimitExceeded as above. Any thread may ask."""

    def __init__(self, permits: Iterable[Permit]) -> None:
        every = tuple(permits)
        if len(every) > PERMITS_MAX:
            raise LimitExceeded("permissions", PERMITS_MAX)
        self._addresses = frozenset(permit.address for permit in every if permit.address is not None)
        self._patterns: tuple[re.Pattern[str], ...] = tuple(
            compile_pattern(permit.regex) for permit in every if permit.regex is not None
        )
        self._remembered: dict[str, bool] = {}

    def holds(self, address: str) -> bool:
        known = self._remembered.get(address)
        if known is not None:
            return known
        if len(address) > ADDRESS_CHARACTERS_MAX:
            return False
        holds = address in self._addresses or any(pattern.fullmatch(address) for pattern in self._patterns)
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[address] = holds
        return holds
