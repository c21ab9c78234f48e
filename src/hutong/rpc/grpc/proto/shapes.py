"""Shapes: how a value of one type crosses between Python and protobuf.

Strategy: what crosses on Python's side is what msgspec makes of values (`builtins_of`) and makes values of: dicts,
lists, numbers, text, and the few types that protobuf has as well (bytes, times). So a shape knows nothing of the user's
classes, constraints and defaults: msgspec checks them, with its own errors. On the other side are messages of protobuf,
made by classes that `descriptors` puts into place (`MessageShape.make`).

`read` raises ValueError for what cannot be a value of the type, `write` ValueError or TypeError for what cannot be
carried. Knows nothing of gRPC, and imports nothing of protobuf.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from hutong.rpc.grpc.proto.schema import DURATION, TIMESTAMP, Label, ProtoKind, ProtoType

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
NANOS_PER_MICROSECOND: Final = 1_000
MICROS_PER_SECOND: Final = 1_000_000


class Absent:
    """The value of an absent field, as distinct from None."""


ABSENT: Final = Absent()


def builtins_of(value: object) -> Any:
    """Convert any value to the input of `write`. Raises TypeError for types that msgspec cannot convert."""
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview, datetime, timedelta))


class Shape:
    """One value. `type` is protobuf's."""

    __slots__ = ("type",)

    def __init__(self, type: ProtoType) -> None:
        self.type = type

    def read(self, value: Any) -> Any:
        """Protobuf's value as msgspec takes it."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """Convert the result of `builtins_of` to protobuf's form."""
        raise NotImplementedError


class ScalarShape(Shape):
    """Numbers, text and bytes: protobuf's own types, checked by protobuf."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(ProtoType(name, ProtoKind.SCALAR))

    def read(self, value: Any) -> Any:
        return value

    def write(self, value: Any) -> Any:
        return value


class EnumShape(Shape):
    """An enum's member, which is its value to msgspec and a number to protobuf."""

    __slots__ = ("_numbers", "_values")

    def __init__(self, name: str, numbers: Mapping[str | int, int]) -> None:
        """`numbers` has the number of each value."""
        super().__init__(ProtoType(name, ProtoKind.ENUM))
        self._numbers = numbers
        self._values = {number: value for value, number in numbers.items()}

    def read(self, value: Any) -> Any:
        try:
            return self._values[value]
        except KeyError:
            # Proto3 enums begin with 0, which a client sends where it leaves the field out.
            given = "none of its names is given" if value == 0 else f"{value} is none of its numbers"
            raise ValueError(f"{self.type.name}: {given}") from None

    def write(self, value: Any) -> Any:
        try:
            return self._numbers[value]
        except KeyError:
            raise ValueError(f"{value!r} is no {self.type.name}") from None


class MessageShape(Shape):
    """A shape with its own protobuf message. `make(**fields)` makes one; it is set before the first write."""

    __slots__ = ("make",)

    make: Callable[..., Any]

    def __init__(self, name: str) -> None:
        super().__init__(ProtoType(name, ProtoKind.MESSAGE))


class TimestampShape(MessageShape):
    """A point in time with its zone; one without is refused, because it names no point in time."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TIMESTAMP)

    def read(self, value: Any) -> Any:
        try:
            # Python's times end at microseconds: further digits are cut off.
            return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // NANOS_PER_MICROSECOND)
        except OverflowError:
            raise ValueError(f"the time {value.seconds} s after 1970 is outside the calendar") from None

    def write(self, value: Any) -> Any:
        # A Timestamp is in UTC: a time without a zone would need a guess.
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise ValueError(f"{value!r} is no time with a time zone")
        seconds, micros = divmod((value - EPOCH) // MICROSECOND, MICROS_PER_SECOND)
        return self.make(seconds=seconds, nanos=micros * NANOS_PER_MICROSECOND)


class DurationShape(MessageShape):
    """A length of time, whose two numbers have the same sign."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(DURATION)

    def read(self, value: Any) -> Any:
        micros = abs(value.nanos) // NANOS_PER_MICROSECOND
        try:
            return timedelta(seconds=value.seconds, microseconds=micros if value.nanos >= 0 else -micros)
        except OverflowError:
            raise ValueError(f"the duration of {value.seconds} s is too long") from None

    def write(self, value: Any) -> Any:
        micros = value // MICROSECOND
        # Of the absolute value: protobuf wants seconds and nanos of one sign, `divmod` gives a positive rest.
        seconds, rest = divmod(abs(micros), MICROS_PER_SECOND)
        sign = -1 if micros < 0 else 1
        return self.make(seconds=sign * seconds, nanos=sign * rest * NANOS_PER_MICROSECOND)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field: the shape of its value and its cardinality. `key` is set for a map.

    `when_absent` is the value that msgspec gets for a missing field; ABSENT leaves it to the default, or to msgspec's
    error message.
    """

    shape: Shape
    label: Label = Label.SINGULAR
    key: Shape | None = None
    when_absent: Any = ABSENT

    def read(self, message: Any, name: str) -> Any:
        """The field's value, or ABSENT. Raises ValueError."""
        if self.label is Label.REPEATED:
            return [self.shape.read(item) for item in getattr(message, name)]
        if self.label is Label.MAP:
            assert self.key is not None
            return {self.key.read(key): self.shape.read(value) for key, value in getattr(message, name).items()}
        # Proto3 cannot tell a singular scalar that is absent from zero.
        has_presence = self.label is not Label.SINGULAR or self.shape.type.kind is ProtoKind.MESSAGE
        if has_presence and not message.HasField(name):
            return self.when_absent
        return self.shape.read(getattr(message, name))

    def write(self, value: Any) -> Any:
        """Convert a value for the message's field. Raises ValueError, TypeError."""
        if self.label is Label.REPEATED:
            return [self.shape.write(item) for item in value]
        if self.label is Label.MAP:
            assert self.key is not None
            return {self.key.write(key): self.shape.write(item) for key, item in value.items()}
        return self.shape.write(value)


@dataclass(frozen=True, slots=True)
class RecordMember:
    """A field of a record: protobuf's name, msgspec's name, and what it holds."""

    name: str
    encoded_name: str
    slot: Slot


class RecordShape(MessageShape):
    """A dict with known keys: Struct, dataclass, TypedDict, the arguments of a method."""

    __slots__ = ("members", "tag")

    def __init__(self, name: str, tag: tuple[str, str | int] | None = None) -> None:
        """`tag` is the key and the value by which msgspec tells a Struct from others. `members` are set afterwards."""
        super().__init__(name)
        self.members: tuple[RecordMember, ...] = ()
        self.tag = tag

    def read(self, value: Any) -> Any:
        found = {member.encoded_name: member.slot.read(value, member.name) for member in self.members}
        record = {name: part for name, part in found.items() if part is not ABSENT}
        if self.tag is not None:
            record[self.tag[0]] = self.tag[1]
        return record

    def write(self, value: Any) -> Any:
        parts = {}
        for member in self.members:
            part = value.get(member.encoded_name)
            if part is not None:
                parts[member.name] = member.slot.write(part)
        return self.make(**parts)


class RowShape(MessageShape):
    """A list of known length: NamedTuple, tuple, Struct with `array_like`. All of its members are always there."""

    __slots__ = ("members", "tag")

    def __init__(self, name: str, tag: str | int | None = None) -> None:
        super().__init__(name)
        self.members: tuple[RecordMember, ...] = ()
        self.tag = tag

    def read(self, value: Any) -> Any:
        row = [member.slot.read(value, member.name) for member in self.members]
        absent = [member.name for member, part in zip(self.members, row, strict=True) if part is ABSENT]
        if absent:
            raise ValueError(f"{self.type.name}: {absent[0]} is missing")
        return row if self.tag is None else [self.tag, *row]

    def write(self, value: Any) -> Any:
        row = value if self.tag is None else value[1:]
        pairs = zip(self.members, row, strict=True)
        return self.make(**{member.name: member.slot.write(part) for member, part in pairs if part is not None})


class BoxShape(MessageShape):
    """A message around one field, for what protobuf has only as a field: a list in a list, None in a map, ..."""

    __slots__ = ("_name", "_slot")

    def __init__(self, name: str, field_name: str, slot: Slot) -> None:
        super().__init__(name)
        self._name = field_name
        self._slot = slot

    def read(self, value: Any) -> Any:
        return self._slot.read(value, self._name)

    def write(self, value: Any) -> Any:
        return self.make() if value is None else self.make(**{self._name: self._slot.write(value)})


class UnionShape(MessageShape):
    """One of several, as a oneof. As in msgspec, a value's JSON type or its tag decides which one it is."""

    __slots__ = ("_kinds", "variants")

    def __init__(self, name: str) -> None:
        """`variants` are set afterwards: what a union holds may hold the union."""
        super().__init__(name)
        self.variants: dict[str, Shape] = {}
        self._kinds: dict[object, str] = {}

    def fill(self, variants: Iterable[tuple[str, Shape, object]]) -> None:
        """Set the variants: (the field's name, its shape, its kind as `_kind_of` returns it)."""
        for name, shape, kind in variants:
            self.variants[name] = shape
            self._kinds[kind] = name

    def read(self, value: Any) -> Any:
        name = value.WhichOneof("value")
        if name is None:
            raise ValueError(f"{self.type.name}: none of its fields is given")
        return self.variants[name].read(getattr(value, name))

    def write(self, value: Any) -> Any:
        name = next((self._kinds[kind] for kind in _kinds_of(value) if kind in self._kinds), None)
        if name is None:
            raise ValueError(f"{type(value).__name__} is none of {self.type.name}")
        return self.make(**{name: self.variants[name].write(value)})


OBJECT: Final = "object"
ARRAY: Final = "array"


def _kinds_of(value: object) -> Iterable[object]:
    """Yield the possible variants of a value: a Python type, OBJECT, ARRAY, or one of these with a tag."""
    # By tag first: several Structs of a union are all dicts.
    if isinstance(value, dict):
        yield from ((OBJECT, key, tag) for key, tag in value.items() if isinstance(tag, str | int))
        yield OBJECT
    elif isinstance(value, list | tuple):
        if value and isinstance(value[0], str | int):
            yield (ARRAY, value[0])
        yield ARRAY
    # Before int: True is an int to Python.
    elif isinstance(value, bool):
        yield bool
    elif isinstance(value, int):
        # msgspec takes an int for a float, so a union with float alone accepts it as well.
        yield from (int, float)
    elif isinstance(value, float):
        yield float
    else:
        yield str  # text, and all that msgspec encodes as text
