"""Headers of a message: names and values in order, names may repeat, and match in upper and lower case.

Strategy: a plain tuple of pairs, replaced by every change. Messages carry few headers, and a short tuple is scanned
faster than anything is hashed; and headers that are sent on are shared until one of both sides makes a change.

Knows no wire format.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hutong.foundation.errors import LimitExceeded

HEADERS_MAX: Final = 256  # of one message
HEADER_CHARACTERS_MAX: Final = 65_536  # of all names and values of one message together


class Headers:
    """Names and values, both str. Raises TypeError for anything else, LimitExceeded above the two bounds."""

    __slots__ = ("pairs",)

    pairs: tuple[tuple[str, str], ...]
    """All of them, in order. To be read: changes are made by the methods, which keep the bounds."""

    def __init__(self, pairs: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        given = [(name, value) for name, value in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
        for name, value in given:
            _check(name, value)
        self._set(tuple(given))

    @classmethod
    def of(cls, pairs: tuple[tuple[str, str], ...]) -> "Headers":
        """With the `pairs` of other headers."""
        headers = cls.__new__(cls)
        headers.pairs = pairs
        return headers

    def add(self, name: str, value: str) -> "Headers":
        """Add a value to those that the name has already. Returns the headers themselves."""
        _check(name, value)
        self._set((*self.pairs, (name, value)))
        return self

    def set(self, name: str, value: str) -> "Headers":
        """Put the value in the place of all that the name has. Returns the headers themselves."""
        _check(name, value)
        self._set((*self.copy().remove(name).pairs, (name, value)))
        return self

    def remove(self, name: str) -> "Headers":
        """Take out every value of the name. Returns the headers themselves."""
        lowered = name.lower()
        self.pairs = tuple([pair for pair in self.pairs if pair[0].lower() != lowered])
        return self

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of the name, in upper or lower case."""
        lowered = name.lower()
        for present, value in self.pairs:
            if present.lower() == lowered:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        """Every value of the name, in upper or lower case, in order."""
        lowered = name.lower()
        return [value for present, value in self.pairs if present.lower() == lowered]

    def items(self) -> list[tuple[str, str]]:
        """All of them, in order."""
        return list(self.pairs)

    def copy(self) -> "Headers":
        return Headers.of(self.pairs)

    def _set(self, pairs: tuple[tuple[str, str], ...]) -> None:
        if len(pairs) > HEADERS_MAX:
            raise LimitExceeded("headers_max", HEADERS_MAX)
        if sum([len(name) + len(value) for name, value in pairs]) > HEADER_CHARACTERS_MAX:
            raise LimitExceeded("header_characters_max", HEADER_CHARACTERS_MAX)
        self.pairs = pairs

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names, each as often as it is there."""
        return iter([name for name, _ in self.pairs])

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    __hash__ = None  # type: ignore[assignment]  # they change

    def __repr__(self) -> str:
        return f"Headers({self.pairs!r})"


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header is two strings, not {type(name).__name__} and {type(value).__name__}")
