"""Routes: what is at a path, by methods. A path is split at its slashes first and unescaped then.

Strategy: routes with the same number of segments are tried in order, those with fewer parameters first. So
`/schemas/types` is found before `/schemas/{id}`, and an escaped slash belongs to its segment.

Knows nothing of connections.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from hutong.web.answers import Answer, WebRefusal
from hutong.web.requests import WebRequest

SEGMENTS_MAX: Final = 32
_INTEGER_DIGITS_MAX: Final = 18
WebHandler: TypeAlias = Callable[[WebRequest], "Answer | Awaitable[Answer]"]


@dataclass(frozen=True, slots=True)
class WebRoute:
    """One method of one path.

    `takes` are the content types of a body, without parameters; empty where none is looked at. `is_public`: it is
    answered without credentials.
    """

    method: str
    pattern: str
    handler: WebHandler
    takes: tuple[str, ...] = ()
    is_public: bool = False

    def check_body(self, content_type: str, body: bytes) -> None:
        """Raises WebRefusal(415) for a body of a type that is not taken here."""
        kind = content_type.partition(";")[0].strip().lower()
        if body and self.takes and kind not in self.takes:
            raise WebRefusal(415, f"a body here is {' or '.join(self.takes)}")


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    is_integer: bool


class WebRoutes:
    """All routes of a server. Raises ValueError for a pattern that is none."""

    def __init__(self, routes: Sequence[WebRoute]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str | _Parameter, ...], dict[str, WebRoute]]]] = {}
        for route in routes:
            self._add(_parsed(route.pattern), route)
        for entries in self._by_length.values():
            entries.sort(key=lambda entry: [isinstance(part, _Parameter) for part in entry[0]])

    def find(self, method: str, path: str) -> tuple[WebRoute, dict[str, str | int]]:
        """The route and its parameters. Raises WebRefusal: 404, 405 with Allow, 400 for a wrong escape."""
        segments = _segments(path)
        allowed: set[str] = set()
        for parts, by_method in self._by_length.get(len(segments), ()):
            parameters = _matched(parts, segments)
            if parameters is None:
                continue
            # RFC 9110, 9.3.2: HEAD is GET without the body of the answer.
            route = by_method.get(method) or (by_method.get("GET") if method == "HEAD" else None)
            if route is not None:
                return route, parameters
            allowed.update(by_method)
        if not allowed:
            raise WebRefusal(404, f"there is nothing at {path[:200]}")
        if "GET" in allowed:
            allowed.add("HEAD")
        methods = ", ".join(sorted(allowed))
        raise WebRefusal(405, f"only {methods} are served here", headers=[("Allow", methods)])

    def _add(self, parts: tuple[str | _Parameter, ...], route: WebRoute) -> None:
        entries = self._by_length.setdefault(len(parts), [])
        for known, by_method in entries:
            if known == parts:
                if route.method in by_method:
                    raise ValueError(f"{route.method} {route.pattern} is there twice")
                by_method[route.method] = route
                return
        entries.append((parts, {route.method: route}))


def _parsed(pattern: str) -> tuple[str | _Parameter, ...]:
    if not pattern.startswith("/"):
        raise ValueError(f"a path begins with a slash: {pattern}")
    return tuple(_part(segment) for segment in pattern[1:].split("/"))


def _part(segment: str) -> str | _Parameter:
    if not segment.startswith("{"):
        return segment
    name, _, kind = segment[1:-1].partition(":")
    if not segment.endswith("}") or not name.isidentifier() or kind not in ("", "int"):
        raise ValueError(f"a parameter is {{name}} or {{name:int}}: {segment}")
    return _Parameter(name, kind == "int")


def _segments(path: str) -> list[str]:
    """Raises WebRefusal."""
    raw = path[1:].split("/")
    if len(raw) > SEGMENTS_MAX:
        raise WebRefusal(404, "there is nothing at so long a path")
    # A trailing slash means the same as none; the root is one.
    if len(raw) > 1 and not raw[-1]:
        raw.pop()
    try:
        return [unquote_to_bytes(each).decode() for each in raw]
    except UnicodeDecodeError:
        raise WebRefusal(400, "the path is not UTF-8") from None


def _matched(parts: tuple[str | _Parameter, ...], segments: list[str]) -> dict[str, str | int] | None:
    found: dict[str, str | int] = {}
    for part, segment in zip(parts, segments, strict=True):
        if isinstance(part, str):
            if part != segment:
                return None
        elif not part.is_integer:
            if not segment:
                return None
            found[part.name] = segment
        # Digits alone: `int` takes signs, spaces and underscores.
        elif len(segment) <= _INTEGER_DIGITS_MAX and segment.isascii() and segment.isdigit():
            found[part.name] = int(segment)
        else:
            return None
    return found
