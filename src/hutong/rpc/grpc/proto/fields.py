"""Fields before they are in a message: their numbers, and names that may not stand twice.

Knows no types of Python's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import UsageError
from hutong.rpc.grpc.proto.names import json_name, pascal_case
from hutong.rpc.grpc.proto.schema import Field, Label, ProtoKind
from hutong.rpc.grpc.proto.shapes import RecordMember, Shape, Slot

FIELD_NUMBER_MAX: Final = (1 << 29) - 1
RESERVED_NUMBERS: Final = range(19_000, 20_000)  # protobuf's own


@dataclass(frozen=True, slots=True)
class Part:
    """A field before numbering. `number` is None unless it has one declared."""

    name: str
    encoded_name: str
    slot: Slot
    number: int | None = None
    comment: str = ""

    @property
    def word(self) -> str:
        """The field's name as part of a tuple's name."""
        many = {Label.REPEATED: "ListOf", Label.MAP: "MapTo", Label.OPTIONAL: "Optional"}
        return many.get(self.slot.label, "") + word_of(self.slot.shape)

    @property
    def member(self) -> RecordMember:
        return RecordMember(self.name, self.encoded_name, self.slot)


def numbered(owner: str, parts: Iterable[Part]) -> tuple[Field, ...]:
    """Numbered in order of declaration. Raises UsageError for numbers and names that stand twice."""
    fields: list[Field] = []
    numbers: dict[str, str] = {}
    spelled: dict[str, str] = {}
    number = 0
    for part in parts:
        number = number + 1 if part.number is None else part.number
        if not 1 <= number <= FIELD_NUMBER_MAX or number in RESERVED_NUMBERS:
            raise UsageError(f"{owner}.{part.name} has the field number {number}, which protobuf keeps or cannot have.")
        for taken, key in ((numbers, str(number)), (spelled, json_name(part.name))):
            if (other := taken.setdefault(key, part.name)) != part.name:
                raise UsageError(f"{owner} has {other} and {part.name}, which are both {key} in the .proto.")
        slot = part.slot
        key_type = None if slot.key is None else slot.key.type.name
        fields.append(Field(part.name, slot.shape.type, number, slot.label, key_type, part.comment))
    return tuple(fields)


def optional(shape: Shape) -> Slot:
    """There or None. A message has that by itself."""
    return Slot(shape, Label.SINGULAR if shape.type.kind is ProtoKind.MESSAGE else Label.OPTIONAL, when_absent=None)


def word_of(shape: Shape) -> str:
    """Return the name of a type as part of the name of a message around it."""
    return pascal_case(shape.type.name.rpartition(".")[2])
