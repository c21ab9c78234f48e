"""A request as its handler sees it: path, parameters, query and body, decoded within bounds.

Knows nothing of connections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from hutong.security.principals import ANONYMOUS, Principal
from hutong.web.answers import WebRefusal

QUERY_FIELDS_MAX: Final = 50
_ACCEPTED_TYPES_MAX: Final = 20
_TRUE: Final = frozenset({"true", "1", "yes", ""})
_FALSE: Final = frozenset({"false", "0", "no"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebRequest:
    """`parameters` are those of the route's path; `query` has the last value of each name."""

    method: str
    path: str
    parameters: Mapping[str, str | int]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    address: str
    principal: Principal = ANONYMOUS

    def by(self, principal: Principal) -> "WebRequest":
        """The same request of this principal."""
        return replace(self, principal=principal)

    def text(self, name: str) -> str:
        """The path's parameter of this name, which its route has as text."""
        return str(self.parameters[name])

    def number(self, name: str) -> int:
        """The path's parameter of this name, which its route has as `{name:int}`."""
        return int(self.parameters[name])

    def check_query(self, *names: str) -> None:
        """Raises WebRefusal(400) for a field of the query that has none of these names."""
        unknown = next((name for name in self.query if name not in names), None)
        if unknown is not None:
            raise WebRefusal(400, f"there is no {unknown[:50]!r} here; a query has {', '.join(names)}")

    def flag(self, name: str, default: bool = False) -> bool:
        """A query field that is true or false. Raises WebRefusal(400)."""
        value = self.query.get(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise WebRefusal(400, f"{name} must be true or false")

    def integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        """A query field that is a number within bounds. Raises WebRefusal(400)."""
        value = self.query.get(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        # Digits are bounded first: `int` is slow for long texts, and takes spaces and underscores.
        if len(digits) > 19 or not (digits.isascii() and digits.isdigit()) or not minimum <= int(value) <= maximum:
            raise WebRefusal(400, f"{name} must be a number from {minimum} to {maximum}")
        return int(value)

    def json(self, kind: type[T]) -> T:
        """The body as a value of this type. Raises WebRefusal(400), which says where the body is wrong."""
        return decode_json(self.body, kind)

    def accepts(self, content_type: str) -> bool:
        """True where the Accept header names this type exactly."""
        listed = self.headers.get("accept", "").split(",", _ACCEPTED_TYPES_MAX)
        return any(each.partition(";")[0].strip().lower() == content_type for each in listed)


def decode_json(body: bytes, kind: type[T]) -> T:
    """Raises WebRefusal(400)."""
    import msgspec  # late: a node that serves metrics alone starts without it

    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WebRefusal(400, f"The body is not what is expected here: {error}") from None


def decode_query(query: str) -> dict[str, str]:
    """Raises WebRefusal(400) for too many fields or bytes that are no UTF-8."""
    try:
        return dict(parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise WebRefusal(400, f"a query has at most {QUERY_FIELDS_MAX} fields, in UTF-8") from None
