"""The language in which Kafka's messages are written down: one typed dataclass per message, its fields the table rows.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

A row gives the type, the versions that carry the field (all, unless given), the versions that allow null, the tag
if it is a tagged field (KIP-482), and the value a reader assumes when a version does not carry it. A type checker sees
an ordinary dataclass with defaults. Names, types, versions and defaults are those of Kafka's message definitions.

Knows nothing of how a value is laid out in bytes beyond the width of the fixed types: that is the engine's business.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar, dataclass_transform

ZERO_UUID = bytes(16)
"""The UUID that means "none": 16 zero bytes."""

NOT_AN_API = -1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; `last` is None when it is open."""

    first: int
    last: int | None

    @classmethod
    @cache
    def parse(cls, text: str) -> "Versions":
        """Read `3-13`, `9+` or `2`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """A type of constant width; `code` is its letter in the struct module, big-endian."""

    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 with a length before it."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes with a length before them, copied out of the frame because they outlive it (group metadata, tokens)."""


@dataclass(frozen=True, slots=True)
class Records:
    """Record batches with a length before them, never copied: a view when decoded, a list of buffers when encoded."""


@dataclass(frozen=True, slots=True)
class Array:
    """Elements with a count before them."""

    element: "WireType"


@dataclass(frozen=True, slots=True)
class Struct:
    """A nested table."""

    table: type[Any]


WireType: TypeAlias = FixedWidth | Text | Opaque | Records | Array | Struct

INT8, INT16, INT32, INT64 = FixedWidth("b", 1), FixedWidth("h", 2), FixedWidth("i", 4), FixedWidth("q", 8)
UINT16 = FixedWidth("H", 2)
BOOLEAN, UUID, FLOAT64 = FixedWidth("?", 1), FixedWidth("16s", 16), FixedWidth("d", 8)
STRING, OPAQUE, RECORDS = Text(), Opaque(), Records()


@dataclass(frozen=True, slots=True)
class Row:
    """One field of a table."""

    wire_type: WireType
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: Any

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """Facts about one message type.

    `api_key` is NOT_AN_API for a message inside another one; `flexible` is None for messages without compact and
    tagged fields; bytes may follow an `open_ended` one.
    """

    name: str
    api_key: int
    versions: range
    flexible: Versions | None
    open_ended: bool = False

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version in self.flexible


def _row(wire_type: WireType, versions: str, nullable: str | None, tag: int | None, default: Any) -> Any:
    return Row(wire_type, Versions.parse(versions), Versions.parse(nullable) if nullable else None, tag, default)


def int8(versions: str = "0+", *, tag: int | None = None, default: int = 0) -> Any:
    return _row(INT8, versions, None, tag, default)


def int16(versions: str = "0+", *, tag: int | None = None, default: int = 0) -> Any:
    return _row(INT16, versions, None, tag, default)


def uint16(versions: str = "0+", *, tag: int | None = None, default: int = 0) -> Any:
    return _row(UINT16, versions, None, tag, default)


def int32(versions: str = "0+", *, tag: int | None = None, default: int = 0) -> Any:
    return _row(INT32, versions, None, tag, default)


def int64(versions: str = "0+", *, tag: int | None = None, default: int = 0) -> Any:
    return _row(INT64, versions, None, tag, default)


def float64(versions: str = "0+", *, tag: int | None = None, default: float = 0.0) -> Any:
    return _row(FLOAT64, versions, None, tag, default)


def boolean(versions: str = "0+", *, tag: int | None = None, default: bool = False) -> Any:
    return _row(BOOLEAN, versions, None, tag, default)


def uuid(versions: str = "0+", *, tag: int | None = None, default: bytes = ZERO_UUID) -> Any:
    return _row(UUID, versions, None, tag, default)


def string(
    versions: str = "0+", *, nullable: str | None = None, tag: int | None = None, default: str | None = ""
) -> Any:
    return _row(STRING, versions, nullable, tag, default)


def opaque(
    versions: str = "0+", *, nullable: str | None = None, tag: int | None = None, default: bytes | None = b""
) -> Any:
    return _row(OPAQUE, versions, nullable, tag, default)


def record_batches(versions: str = "0+", *, nullable: str | None = None) -> Any:
    return _row(RECORDS, versions, nullable, None, None)


def array(
    element: WireType | type[Any],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: tuple[()] | None = (),
) -> Any:
    """Declare an array. The default `()` means "a new empty list for each instance"."""
    wire_type = Struct(element) if isinstance(element, type) else element
    return _row(Array(wire_type), versions, nullable, tag, default)


def nested(
    table: type[Any], versions: str = "0+", *, nullable: str | None = None, tag: int | None = None, default: Any = ...
) -> Any:
    """One `value` struct. Unless given, the default is one shared instance with the defaults of its own rows."""
    return _row(Struct(table), versions, nullable, tag, table() if default is ... else default)


@dataclass_transform()
def struct(table: type[T]) -> type[T]:
    """Turn a class whose attributes are rows into a slotted dataclass: the elements of arrays."""
    return _with_rows(table, frozen=False)


@dataclass_transform(frozen_default=True)
def value(table: type[T]) -> type[T]:
    """Like `struct`, but frozen: the tables that fill a field alone, whose default instance is shared."""
    return _with_rows(table, frozen=True)


@dataclass_transform()
def message(
    *, versions: str, api_key: int = NOT_AN_API, flexible: str | None = None, open_ended: bool = False
) -> Callable[[type[T]], type[T]]:
    """Turn a class whose attributes are rows into a slotted dataclass that the engine can encode and decode."""
    accepted = Versions.parse(versions)
    # A codec is compiled for each version, so there must be a last one.
    if accepted.last is None:
        raise ValueError("the versions of a message end somewhere")
    span = range(accepted.first, accepted.last + 1)

    def decorate(table: type[T]) -> type[T]:
        decorated = _with_rows(table, frozen=False)
        flexible_versions = Versions.parse(flexible) if flexible else None
        info = MessageInfo(table.__name__, api_key, span, flexible_versions, open_ended)
        decorated.__message__ = info  # type: ignore[attr-defined]
        return decorated

    return decorate


def message_info(table: type[Any]) -> MessageInfo:
    """Return the facts that the decorator `message` recorded."""
    info: MessageInfo = table.__message__
    return info


def rows_of(table: type[Any]) -> list[tuple[str, Row]]:
    """Field names and rows in wire order."""
    return [(field.name, field.metadata["row"]) for field in dataclasses.fields(table)]


def is_value(table: type[Any]) -> bool:
    """Return True if instances are frozen."""
    return bool(table.__dataclass_params__.frozen)


def _with_rows(table: type[T], *, frozen: bool) -> type[T]:
    """Make the dataclass, its methods shared or made at first use.

    There are some 150 tables; what dataclasses generates for each of them would be a tenth of a second of every start.
    """
    for name in table.__annotations__:
        row: Row = getattr(table, name)
        setattr(table, name, _dataclass_field(row))
    table.__doc__ = table.__doc__ or table.__name__  # or dataclasses derives one from the signature, slowly
    table.__init__, table.__repr__, table.__eq__ = _first_init, _repr, _equal  # type: ignore[method-assign]
    table.__hash__ = _hash if frozen else None  # type: ignore[method-assign,assignment]
    return dataclass(slots=True, frozen=frozen, init=False, repr=False, eq=False)(table)


def _first_init(self: Any, *arguments: Any, **keywords: Any) -> None:
    """Replace `__init__` until the first instance is made by hand; decoders never need it."""
    table = type(self)
    table.__init__ = _compile_init(table)
    table.__init__(self, *arguments, **keywords)


def _compile_init(table: type[Any]) -> Any:
    namespace: dict[str, Any] = {"new_list": (), "set_frozen": object.__setattr__}
    parameters, body = [], []
    for field in dataclasses.fields(table):
        # Lists have a factory in the place of a default.
        name, is_list = field.name, field.default is dataclasses.MISSING
        namespace[f"default_{name}"] = field.default
        parameters.append(f"{name}={'new_list' if is_list else f'default_{name}'}")
        argument = f"[] if {name} is new_list else {name}" if is_list else name
        body.append(f"set_frozen(self, '{name}', {argument})" if is_value(table) else f"self.{name} = {argument}")
    exec(f"def __init__(self, {', '.join(parameters)}):\n " + "\n ".join(body), namespace)
    return namespace["__init__"]


def _repr(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def _equal(self: Any, other: Any) -> bool:
    return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self.__slots__))


def _dataclass_field(row: Row) -> Any:
    metadata = {"row": row}
    # A list is never shared between instances.
    if row.default == () and isinstance(row.wire_type, Array):
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=row.default, metadata=metadata)
