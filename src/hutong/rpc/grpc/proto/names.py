"""Names of a `.proto` file: from Python's to protobuf's customs, and the names already in use.

Strategy: a name that protobuf forbids, or that would mean two things, is refused with a sentence. A generated one could
change later and break generated code.

Knows no types.
"""

import re
from typing import Final

from hutong.foundation.errors import UsageError

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def identifier(name: str, what: str) -> str:
    """Return the name. Raises UsageError if protobuf forbids it; `what` names its owner."""
    if not _IDENTIFIER.fullmatch(name) or not name.strip("_"):
        raise UsageError(f"{what} is called {name!r}, but names in a .proto are letters a-z, digits and underscores.")
    return name


def pascal_case(name: str) -> str:
    """`place_order` → `PlaceOrder`; what is in such a form already stays."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_") if word)


def upper_case(name: str) -> str:
    """`OrderState` → `ORDER_STATE`."""
    return _WORD_START.sub("_", name).upper()


def json_name(name: str) -> str:
    """As protobuf's JSON spells a field: two fields of one message may not have the same."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def package_of(address: str) -> str:
    """The package of a service: its address, with what a package cannot have as underscores."""
    parts = [re.sub(r"[^A-Za-z0-9_]", "_", part) for part in address.split(".")]
    named = [f"_{part}" if part[:1].isdigit() else part for part in parts if part]
    if not any(part.strip("_") for part in named):
        raise UsageError(f"The address {address!r} has no letters to make a package of; give the server a package.")
    return ".".join(named)


class Names:
    """The names of messages and enums in one file, each unique."""

    def __init__(self, reserved: str) -> None:
        """`reserved` is the service's own name."""
        self._taken: dict[str, object] = {reserved: "the service itself"}

    def take(self, name: str, thing: object) -> str:
        """Reserve the name for `thing` (any hashable value). Raises UsageError if it is taken."""
        identifier(name, f"The type {name}")
        holder = self._taken.setdefault(name, thing)
        if holder != thing:
            raise UsageError(f"Two different things would be called {name} in the .proto: {holder} and {thing}.")
        return name

    def is_free(self, name: str) -> bool:
        return name not in self._taken
