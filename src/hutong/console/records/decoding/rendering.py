"""Values as indented text like JSON, up to a number of characters.

Strategy: containers are walked by iterators on a stack, so that neither depth nor a million items take more than what
is shown. Bytes are written as 0x and hex digits. Keys of maps are written as values are: MessagePack has any.

Knows nothing of forms.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

INDENTED_LEVELS_MAX: Final = 32
"""Deeper levels are indented as this one: a line of a nested value must not be longer than its text."""
NUMBER_BITS_MAX: Final = 13_000
"""Python refuses to write integers of more than 4,300 digits (CVE-2020-10735)."""
_Entry: TypeAlias = tuple[str, str, Any]
"""A separator, a name or nothing, and the item."""
_Frames: TypeAlias = list[tuple[Iterator[_Entry], str]]


class Rendering:
    """One text. `is_whole`: the value was written to its end."""

    def __init__(self, chars_max: int) -> None:
        self.is_whole = True
        self._left = chars_max
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def render(self, value: Any) -> None:
        """Write a value and what it contains."""
        frames: _Frames = []
        prefix, item = "", value
        while True:
            frame = _frame(item)
            if frame is None:
                self._put(prefix + _scalar(item, self._left))
            else:
                opening, entries, closing = frame
                self._put(prefix + opening)
                frames.append((entries, closing))
            found = self._next(frames)
            if found is None or not self.is_whole:
                return
            prefix, item = found

    def _next(self, frames: _Frames) -> tuple[str, Any] | None:
        """The next item with what comes before it; None at the end."""
        while frames:
            entries, closing = frames[-1]
            entry = next(entries, None)
            if entry is not None:
                separator, name, item = entry
                return f"{separator}{_indent(len(frames))}{name}", item
            frames.pop()
            self._put(_indent(len(frames)) + closing)
        return None

    def _put(self, text: str) -> None:
        if len(text) > self._left:
            self.is_whole = False
            text = text[: self._left]
        self._left -= len(text)
        self._parts.append(text)


def _frame(value: Any) -> tuple[str, Iterator[_Entry], str] | None:
    """The opening, the items with their separators and names, and the end; None for what is written at once."""
    if isinstance(value, dict) and value:
        return "{", _named(value), "}"
    if isinstance(value, list | tuple) and value:
        return "[", _numbered(value), "]"
    return None


def _named(value: dict[Any, Any]) -> Iterator[_Entry]:
    separator = ""
    for key, item in value.items():
        yield separator, f"{_scalar(key, 10_000)}: ", item
        separator = ","


def _numbered(value: list[Any] | tuple[Any, ...]) -> Iterator[_Entry]:
    separator = ""
    for item in value:
        yield separator, "", item
        separator = ","


def _indent(depth: int) -> str:
    return "\n" + "  " * min(depth, INDENTED_LEVELS_MAX)


def _scalar(value: Any, chars_max: int) -> str:
    """A value without parts. What is longer than it may be is cut before it is escaped."""
    if isinstance(value, str):
        # A lone surrogate, as JSON's escapes may make, has no UTF-8: it stays escaped.
        whole = value[: chars_max + 1].encode(errors="surrogatepass").decode(errors="replace")
        return json.dumps(whole, ensure_ascii=False)
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if value.bit_length() <= NUMBER_BITS_MAX else "a number with too many digits"
    if isinstance(value, float):
        return json.dumps(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "0x" + bytes(value[: chars_max // 2 + 1]).hex()
    if isinstance(value, datetime):
        return json.dumps(value.isoformat())
    if isinstance(value, dict | list | tuple):
        return ("{}" if isinstance(value, dict) else "[]") if not value else json.dumps("a key with parts")
    return _other(value, chars_max)


def _other(value: Any, chars_max: int) -> str:
    """MessagePack's extensions, and what libraries of schemas return beyond JSON: decimals, UUIDs, dates."""
    code, data = getattr(value, "code", None), getattr(value, "data", None)
    if isinstance(code, int) and isinstance(data, bytes | bytearray | memoryview):
        return json.dumps(f"extension {code}: 0x{bytes(data[:chars_max]).hex()}")
    return json.dumps(str(value)[:chars_max], ensure_ascii=False)
