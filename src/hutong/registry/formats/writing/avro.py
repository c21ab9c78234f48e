"""Values of JSON to Avro's binary form (Avro 1.12, "JSON Encoding" and "Binary Encoding").

Strategy: the schema leads, so that each value is asked for what its type needs. A value of a union is null, or an
object with its branch's name; bytes and fixed are strings of the characters up to U+00FF. Logical types are given as
the numbers and bytes that they are made of. As in Java's decoder every field must be given, and no other: a default is
for readers. Depth has the bound of reading.

Knows nothing of registries.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from hutong.foundation.errors import ProtocolError
from hutong.registry.formats.avro_types import AvroType
from hutong.registry.formats.avro_values import LEVELS_MAX
from hutong.registry.formats.writing.steps import WriteSteps

_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)
_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""As Java's encoder writes them: JSON has no numbers for these."""


def write_avro(type_: AvroType, value: Any, steps: WriteSteps) -> bytes:
    """The bytes. Raises ProtocolError for a value that is not of this type, which it names by its path."""
    writing = _AvroWriting(steps)
    writing.value(type_, value, LEVELS_MAX)
    return bytes(writing.out)


class _AvroWriting:
    """One value's bytes as far as they are written, and the place in the value."""

    def __init__(self, steps: WriteSteps) -> None:
        self.out = bytearray()
        self._steps = steps
        self._path: list[str] = []
        self._writers: dict[str, Callable[[AvroType, Any], None]] = {
            "null": self._null,
            "boolean": self._boolean,
            "int": lambda _, value: self._integer(value, _INT, "int"),
            "long": lambda _, value: self._integer(value, _LONG, "long"),
            "float": lambda _, value: self._real(value, "<f"),
            "double": lambda _, value: self._real(value, "<d"),
            "bytes": lambda _, value: self._sized(self._binary(value)),
            "string": lambda _, value: self._text(value),
            "enum": self._enum,
            "fixed": self._fixed,
        }

    def value(self, type_: AvroType, value: Any, levels: int) -> None:
        """Raises ProtocolError."""
        if not levels:
            self._refuse(f"it is nested more than {LEVELS_MAX} deep")
        levels -= 1
        self._steps.count()
        match type_.kind:
            case "record" | "error":
                self._record(type_, value, levels)
            case "union":
                self._union(type_, value, levels)
            case "array":
                self._array(type_, value, levels)
            case "map":
                self._map(type_, value, levels)
            case other:
                self._writers[other](type_, value)

    def _inside(self, name: str, type_: AvroType | None, value: Any, levels: int) -> None:
        assert type_ is not None, "arrays and maps have items"
        self._path.append(name)
        self.value(type_, value, levels)
        self._path.pop()

    def _record(self, type_: AvroType, value: Any, levels: int) -> None:
        if not isinstance(value, dict):
            self._refuse(f"a record of type {type_.name} is an object")
        for field in type_.fields:
            # A schema may have many fields for each byte of a value that lacks them.
            self._steps.count()
            if field.name not in value:
                self._refuse(f"the field {field.name} is missing; also one with a default must be given")
            self._inside(field.name, field.type, value[field.name], levels)
        if len(value) > len(type_.fields):
            stray = next(iter(value.keys() - {field.name for field in type_.fields}))
            self._refuse(f"there is no field {stray[:100]!r}")

    def _union(self, type_: AvroType, value: Any, levels: int) -> None:
        name, inner = "null", None
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
        elif value is not None:
            self._refuse(f"a value of a union is {_forms(type_)}")
        for place, branch in enumerate(type_.branches):
            if name == (branch.name or branch.kind):
                self._number(place)
                self._inside(name, branch, inner, levels)
                return
        self._refuse(f"a value of a union is {_forms(type_)}")

    def _array(self, type_: AvroType, value: Any, levels: int) -> None:
        if not isinstance(value, list):
            self._refuse("an array is a list")
        if value:
            self._number(len(value))
        for place, each in enumerate(value):
            self._inside(str(place), type_.items, each, levels)
        self._number(0)

    def _map(self, type_: AvroType, value: Any, levels: int) -> None:
        if not isinstance(value, dict):
            self._refuse("a map is an object")
        if value:
            self._number(len(value))
        for name, each in value.items():
            self._text(name)
            self._inside(name, type_.items, each, levels)
        self._number(0)

    def _null(self, _: AvroType, value: Any) -> None:
        if value is not None:
            self._refuse("it is not null")

    def _boolean(self, _: AvroType, value: Any) -> None:
        if not isinstance(value, bool):
            self._refuse("a boolean is true or false")
        self.out.append(value)

    def _enum(self, type_: AvroType, value: Any) -> None:
        if not isinstance(value, str) or value not in type_.symbols:
            self._refuse(f"it is no symbol of {type_.name}")
        self._number(type_.symbols.index(value))

    def _fixed(self, type_: AvroType, value: Any) -> None:
        data = self._binary(value)
        if len(data) != type_.size:
            self._refuse(f"{type_.name} has {type_.size} bytes, not {len(data)}")
        self.out += data

    def _integer(self, value: Any, bounds: range, kind: str) -> None:
        if type(value) is not int or value not in bounds:
            self._refuse(f"a number of type {kind} is an integer from {bounds.start} to {bounds.stop - 1}")
        self._number(value)

    def _real(self, value: Any, form: str) -> None:
        if isinstance(value, str):
            value = _NOT_FINITE.get(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._refuse("it is no number")
        try:
            self.out += struct.pack(form, float(value))
        except OverflowError:
            self._refuse("the number is too large for its type")

    def _text(self, value: Any) -> None:
        if not isinstance(value, str):
            self._refuse("it is no string")
        try:
            self._sized(value.encode())
        except UnicodeEncodeError:
            self._refuse("a string has a lone surrogate in it")

    def _binary(self, value: Any) -> bytes:
        try:
            return str.encode(value, "latin-1")
        # Something else than a string, or one with other characters.
        except (TypeError, UnicodeEncodeError):
            self._refuse("bytes are a string of characters up to U+00FF")

    def _sized(self, data: bytes) -> None:
        self._number(len(data))
        self.out += data

    def _number(self, value: int) -> None:
        raw = value << 1 ^ value >> 63
        while raw > 0x7F:
            self.out.append(raw & 0x7F | 0x80)
            raw >>= 7
        self.out.append(raw)

    def _refuse(self, why: str) -> NoReturn:
        raise ProtocolError(f"at /{'/'.join(self._path)[:200]}: {why}")


def _forms(type_: AvroType) -> str:
    """The forms of a union's values in JSON, as a sentence has them."""
    names = [branch.name or branch.kind for branch in type_.branches]
    return " or ".join("null" if name == "null" else f'{{"{name}": ...}}' for name in names)[:300]
