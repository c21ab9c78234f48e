"""Avro's binary form as values (Avro 1.12, "Binary Encoding"), read by the schema that wrote it.

Strategy: lengths and counts are compared with what is left before anything is made of them. Depth has a bound: a
library in C ends the process when a few kilobytes are nested in each other (fastavro 1.13 does). Items that take no
bytes have one as well. Logical types stay the numbers and bytes that they are made of. Values come as Python has them,
or in Avro's own form of JSON, in which a union names the branch and bytes are characters ("JSON Encoding").

Knows nothing of registries.
"""

import struct
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from hutong.foundation.errors import ProtocolError
from hutong.registry.formats.avro_types import AvroType

LEVELS_MAX: Final = 64
PARTS_SPARE: Final = 10_000
PARTS_OF_BYTE_MAX: Final = 16
"""A byte may end a field, and with it some of the records and unions around it."""
_LONG_BYTES_MAX: Final = 10
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""As Java's encoder writes them: JSON has no numbers for these."""
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def read_avro(type_: AvroType, data: bytes) -> Any:
    """The value. Raises ProtocolError for bytes that this schema has not written, or with others after them."""
    return _read(type_, _AvroReading(data))


def read_avro_json(type_: AvroType, data: bytes) -> Any:
    """The same in Avro's form of JSON."""
    return _read(type_, _AvroJsonReading(data))


def _read(type_: AvroType, reading: "_AvroReading") -> Any:
    value = reading.value(type_, LEVELS_MAX)
    if reading.left:
        raise ProtocolError(f"{reading.left} bytes are left over")
    return value


class _AvroReading:
    """One value's bytes, and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._parts_left = PARTS_SPARE + PARTS_OF_BYTE_MAX * len(data)
        self._readers: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: self._take(1) != b"\0",
            "int": self._long,
            "long": self._long,
            "float": lambda: self._real(_FLOAT.unpack(self._take(4))[0]),
            "double": lambda: self._real(_DOUBLE.unpack(self._take(8))[0]),
            "bytes": lambda: self._binary(self._bytes()),
            "string": self._text,
        }

    @property
    def left(self) -> int:
        """The bytes that are not read."""
        return len(self._data) - self.at

    def value(self, type_: AvroType, levels: int) -> Any:
        """Raises ProtocolError."""
        if not levels:
            raise ProtocolError(f"it is nested more than {LEVELS_MAX} deep")
        levels -= 1
        self._parts_left -= 1
        if self._parts_left < 0:
            raise ProtocolError("it has too many parts that take no bytes")
        match type_.kind:
            case "record" | "error":
                return {field.name: self.value(field.type, levels) for field in type_.fields}
            case "union":
                return self._branch(_at(type_.branches, self._long(), "branch"), levels)
            case "enum":
                return _at(type_.symbols, self._long(), "symbol")
            case "fixed":
                return self._binary(self._take(type_.size))
            case "array":
                assert type_.items is not None, "arrays have items"
                items = type_.items
                return self._blocks(lambda: self.value(items, levels))
            case "map":
                assert type_.items is not None, "maps have values"
                values = type_.items
                return dict(self._blocks(lambda: (self._text(), self.value(values, levels))))
            case primitive:
                return self._readers[primitive]()

    def _branch(self, type_: AvroType, levels: int) -> Any:
        return self.value(type_, levels)

    def _binary(self, data: bytes) -> Any:
        return data

    def _real(self, value: float) -> Any:
        return value

    def _blocks(self, read: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while count := self._long():
            # A negative count comes with the bytes of its block, which readers that skip it use.
            if count < 0:
                count = -count
                self._long()
            found.extend(read() for _ in range(count))
        return found

    def _long(self) -> int:
        raw = 0
        for place in range(_LONG_BYTES_MAX):
            byte = self._take(1)[0]
            raw |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)
        raise ProtocolError(f"a number has more than {_LONG_BYTES_MAX} bytes")

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _text(self) -> str:
        try:
            return self._bytes().decode()
        except UnicodeDecodeError:
            raise ProtocolError("a string is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.at:
            raise ProtocolError(f"{size} bytes are to follow, of {len(self._data) - self.at} that are left")
        taken = self._data[self.at : self.at + size]
        self.at += size
        return taken


class _AvroJsonReading(_AvroReading):
    """The same in Avro's form of JSON."""

    def _branch(self, type_: AvroType, levels: int) -> Any:
        value = self.value(type_, levels)
        return None if type_.kind == "null" else {type_.name or type_.kind: value}

    def _binary(self, data: bytes) -> Any:
        return data.decode("latin-1")

    def _real(self, value: float) -> Any:
        return value if isfinite(value) else _NOT_FINITE[str(value)]


def _at(choices: tuple[Any, ...], place: int, what: str) -> Any:
    if not 0 <= place < len(choices):
        raise ProtocolError(f"there is no {what} {place}")
    return choices[place]
