"""Writes the source of a decoder: straight-line Python for one message at one version.

Strategy: adjacent fixed-width fields, together with the length that follows them, are read by one precompiled
struct straight into the attributes of a new object; a compact length below 128 costs one comparison. Array counts are
checked against the bytes that remain before anything is built, and in requests against a bound on all elements
together. Slices are not checked one by one: a length that points past the end makes the position overshoot, every later
read then raises, and the last line compares position and size.
IndexError, struct.error and UnicodeDecodeError become ProtocolError once, at the outer function.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.codec.layout import TableAt, has_records, length_code, size_min
from hutong.wire.kafka.codec.source import SourceCode
from hutong.wire.kafka.schema import (
    Array,
    FixedWidth,
    MessageInfo,
    Opaque,
    Records,
    Row,
    Struct,
    Text,
    WireType,
    is_value,
)
from hutong.wire.kafka.varint import TAGGED_FIELDS_MAX, finish_uvarint, read_uvarint, skip_tagged_fields


def _reject(why: str) -> None:
    raise ProtocolError(why)


_NAMESPACE = {
    "ProtocolError": ProtocolError,
    "struct_error": struct.error,
    "new": object.__new__,
    "finish_uvarint": finish_uvarint,
    "read_uvarint": read_uvarint,
    "skip_tagged_fields": skip_tagged_fields,
    "unpack_from": struct.unpack_from,
    "reject": _reject,
}


def decoder_source(
    table: type[Any], info: MessageInfo, version: int, function: str, elements_max: int | None
) -> SourceCode:
    """Source of `function(data, position=0) -> message`, which takes all of `data` from `position`.

    `elements_max` bounds the elements of all its arrays together.

    Where `info.open_ended`, bytes may follow: newer versions of such a message only append. They may follow requests
    too: Kafka ignores them, and librdkafka 2.16 sends three too many when it asks for the metadata of all topics.
    """
    source = SourceCode(_NAMESPACE)
    # Only requests have a bound: responses come from a broker that we chose.
    writer = _DecoderWriter(source, version, info.is_flexible(version), has_bound=elements_max is not None)
    with source.block(f"def {function}(data, position=0)"):
        with source.block("try"):
            source.line("size = len(data)")
            if elements_max is not None:
                source.line(f"elements_left = {elements_max}")
            # A view for records alone: slicing bytes is faster for everything else.
            if has_records(table, version):
                source.line("view = memoryview(data)")
            writer.table(table, "message")
            may_follow = info.open_ended or info.name.endswith("Request")
            with source.block(f"if position {'>' if may_follow else '!='} size"):
                source.line(f"reject(f'{info.name} v{version} ends at byte {{position}} of {{size}}')")
            source.line("return message")
        with source.block("except (struct_error, IndexError, UnicodeDecodeError) as error"):
            source.line(f"raise ProtocolError(f'{info.name} v{version}: {{error}}') from error")
    return source


class _DecoderWriter:
    """Writes reads. A run of fixed-width reads is held back until something of variable length needs the position."""

    def __init__(self, source: SourceCode, version: int, flexible: bool, *, has_bound: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._has_bound = has_bound  # of elements in all arrays together
        self._run: list[tuple[str, str]] = []  # struct code, target
        self._labels: dict[str, str] = {}  # target to what error messages call it

    def table(self, table: type[Any], target: str) -> None:
        """Read one table into a new object bound to `target`, a local name."""
        source, layout = self._source, TableAt(table, self._version)
        name = source.constant(table.__name__, table)
        frozen = is_value(table)
        # Fields of a frozen table are locals until all of them are read.
        prefix = f"{target}_" if frozen else f"{target}."
        # `new` skips `__init__`: every slot is assigned below.
        if not frozen:
            source.line(f"{target} = new({name})")
        for field in table.__annotations__:
            self._labels[prefix + field] = f"{table.__name__}.{field}"
        # Tagged fields get their defaults first; those that are present overwrite them.
        for field, row in layout.absent + [(field, row) for _, field, row in layout.tagged]:
            source.line(f"{prefix}{field} = {self._default(table, field, row)}")
        for field, row in layout.plain:
            self._value(row.wire_type, prefix + field, row.is_nullable(self._version))
        if self._flexible:
            self._tagged_fields([(tag, prefix + field, row) for tag, field, row in layout.tagged])
        self._flush()
        # A frozen object takes its values in one call: its slots cannot be assigned one by one.
        if frozen:
            arguments = [f"{field}={prefix}{field}" for field in table.__annotations__]
            source.line(f"{target} = {name}({', '.join(arguments)})")

    def _label(self, target: str) -> str:
        return self._labels.get(target, "an element")

    def _default(self, table: type[Any], field: str, row: Row) -> str:
        if row.default == () and isinstance(row.wire_type, Array):
            return "[]"
        if row.default is None or isinstance(row.default, int | str):
            # A literal in the source is a constant of the function: no look-up at run time.
            return repr(row.default)
        return self._source.constant(f"{table.__name__}_{field}", row.default)

    def _value(self, wire_type: WireType, target: str, nullable: bool) -> None:
        match wire_type:
            case FixedWidth(code, _):
                self._run.append((code, target))
            case Struct(table):
                self._struct(table, target, nullable)
            case Array(element):
                self._array(element, target, nullable)
            case _:
                self._bytes(wire_type, target, nullable)

    def _flush(self) -> None:
        """Write the run that was held back."""
        source, run = self._source, self._run
        if not run:
            return
        codes = "".join(code for code, _ in run)
        targets = ", ".join(target for _, target in run)
        # Indexing one byte is faster than a struct.
        if codes == "B":
            source.line(f"{targets} = data[position]")
        else:
            comma = "," if len(run) == 1 else ""
            source.line(f"{targets}{comma} = {source.packer('unpack_from', codes)}(data, position)")
        source.line(f"position += {struct.calcsize('>' + codes)}")
        self._run = []

    def _length(self, wire_type: WireType) -> str:
        """Read a length or count and return its local name; compact ones are one higher, zero meaning null."""
        length = self._source.fresh("length")
        self._run.append((length_code(wire_type, self._flexible), length))
        self._flush()
        if self._flexible:
            # The first byte was read with the run; lengths below 128 need no call.
            with self._source.block(f"if {length} > 127"):
                self._source.line(f"{length}, position = finish_uvarint(data, position, {length})")
        return length

    @contextmanager
    def _unless_null(self, length: str, target: str, nullable: bool) -> Iterator[None]:
        """Write what null and negative lengths mean; inside goes what all others mean."""
        source = self._source
        if nullable:
            # Null is 0 in compact lengths (KIP-482) and -1 in others.
            with source.block(f"if {length} == {0 if self._flexible else -1}"):
                source.line(f"{target} = None")
        if not (nullable and self._flexible):
            # A nullable compact length cannot be invalid: 0 is null, and it has no sign.
            with source.block(f"{'elif' if nullable else 'if'} {length} < {1 if self._flexible else 0}"):
                source.line(f"reject('{self._label(target)} has no length')")
        with source.block("else") if nullable else nullcontext():
            yield

    def _bytes(self, wire_type: WireType, target: str, nullable: bool) -> None:
        source, length = self._source, self._length(wire_type)
        with self._unless_null(length, target, nullable):
            source.line(f"end = position + {length}{' - 1' if self._flexible else ''}")
            source.line(f"{target} = {_SLICES[type(wire_type)]}")
            source.line("position = end")

    def _array(self, element: WireType, target: str, nullable: bool) -> None:
        source, length = self._source, self._length(Array(element))
        smallest = size_min(element, self._version, self._flexible)
        assert smallest > 0, "elements that take no bytes would make counts unbounded"
        with self._unless_null(length, target, nullable):
            if self._flexible:
                source.line(f"{length} -= 1")
            # Before anything is built: a count of 2^31 must not allocate.
            with source.block(f"if {length} * {smallest} > size - position"):
                source.line(f"reject(f'{self._label(target)} cannot hold {{{length}}} elements')")
            if self._has_bound:
                # One budget for the whole request, since nested arrays multiply.
                source.line(f"elements_left -= {length}")
                with source.block("if elements_left < 0"):
                    source.line(f"reject('{self._label(target)} has too many elements')")
            # One unpack for the whole array: replica lists and partition indexes.
            if isinstance(element, FixedWidth) and element.code in "bhiq":
                source.line(f"{target} = list(unpack_from(f'>{{{length}}}{element.code}', data, position))")
                source.line(f"position += {length} * {smallest}")
            else:
                self._elements(element, length, target)

    def _elements(self, element: WireType, length: str, target: str) -> None:
        source = self._source
        items, item = source.fresh("items"), source.fresh("item")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({length})"):
            if isinstance(element, Struct):
                self.table(element.table, item)
            else:
                # Elements cannot be null in Kafka's protocol: only the array can.
                self._value(element, item, nullable=False)
                self._flush()
            source.line(f"{items}.append({item})")

    def _struct(self, table: type[Any], target: str, nullable: bool) -> None:
        local = self._source.fresh("item")
        if not nullable:
            self._flush()
            self.table(table, local)
            self._source.line(f"{target} = {local}")
            return
        present = self._source.fresh("present")
        # Nullable structs have a presence byte in both forms (KIP-893).
        self._run.append(("b", present))
        self._flush()
        with self._source.block(f"if {present} < 0"):
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            self.table(table, local)
            self._source.line(f"{target} = {local}")

    def _tagged_fields(self, tagged: list[tuple[int, str, Row]]) -> None:
        source, count = self._source, self._source.fresh("tags")
        self._run.append(("B", count))
        self._flush()
        # Unknown tags are skipped: newer clients may send them.
        if not tagged:
            with source.block(f"if {count}"):
                source.line(f"position = skip_tagged_fields(data, position, {count})")
            return
        with source.block(f"if {count} > {TAGGED_FIELDS_MAX}"):
            source.line("reject('too many tagged fields')")
        with source.block(f"for _ in range({count})"):
            self._tagged_field(tagged)

    def _tagged_field(self, tagged: list[tuple[int, str, Row]]) -> None:
        source = self._source
        tag, length, end = source.fresh("tag"), source.fresh("length"), source.fresh("tag_end")
        # Known tags are compared one by one: no message has more than a few.
        source.line(f"{tag}, position = read_uvarint(data, position)")
        source.line(f"{length}, position = read_uvarint(data, position)")
        source.line(f"{end} = position + {length}")
        branch = "if"
        for number, target, row in tagged:
            with source.block(f"{branch} {tag} == {number}"):
                self._value(row.wire_type, target, row.is_nullable(self._version))
                self._flush()
                # A field shorter or longer than its tag claims would shift all that follows.
                with source.block(f"if position != {end}"):
                    source.line(f"reject('{self._label(target)} does not fill its tagged field')")
            branch = "elif"
        with source.block("else"):
            # A tag that this version does not know (KIP-482).
            source.line(f"position = {end}")


_SLICES = {
    Text: "str(data[position:end], 'utf-8')",
    Opaque: "bytes(data[position:end])",
    Records: "view[position:end]",
}
