"""Writes the source of an encoder: straight-line Python for one message at one version.

Strategy: pieces are collected in a list and joined once; adjacent fixed-width fields, together with the length that
follows them, are packed by one precompiled struct; a compact length below 128 is one byte of that struct. Records are
never copied: the pieces so far are joined and the record buffers follow them in the output as they are.

A value that does not fit its field is our own fault and raises Python's own error. A field that a version does not
carry is left out.
"""

from typing import Any

from hutong.wire.kafka.codec.layout import TableAt, length_code
from hutong.wire.kafka.codec.source import SourceCode
from hutong.wire.kafka.schema import Array, FixedWidth, MessageInfo, Records, Row, Struct, Text, WireType
from hutong.wire.kafka.varint import ONE_BYTE, uvarint

_NAMESPACE = {"join": b"".join, "uvarint": uvarint, "ONE_BYTE": ONE_BYTE}


def encoder_source(table: type[Any], info: MessageInfo, version: int, function: str) -> SourceCode:
    """Source of `function(message, out)`, which appends the buffers of the body to `out`."""
    source = SourceCode(_NAMESPACE)
    with source.block(f"def {function}(message, out)"):
        source.line("pieces = []")
        # A bound method in a local costs no look-up for each piece.
        source.line("add = pieces.append")
        writer = _EncoderWriter(source, version, info.is_flexible(version))
        writer.table(table, "message")
        source.line("out.append(join(pieces))")
    return source


class _EncoderWriter:
    """Writes appends. A run of fixed-width values is held back so that one struct packs it with what follows."""

    def __init__(self, source: SourceCode, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._add = "add"
        self._run: list[tuple[str, str]] = []  # struct code, expression

    def table(self, table: type[Any], target: str) -> None:
        """Write the fields of the object bound to `target`; nothing is held back when it returns."""
        layout = TableAt(table, self._version)
        for field, row in layout.plain:
            self._value(row.wire_type, f"{target}.{field}", row.is_nullable(self._version))
        # Tagged fields end a table (KIP-482).
        if layout.tagged:
            self._flush()
            self._tagged_fields(table, layout.tagged, target)
        elif self._flexible:
            self._run.append(("x", ""))  # a zero byte: no tagged fields
        self._flush()

    def _value(self, wire_type: WireType, expression: str, nullable: bool) -> None:
        match wire_type:
            # Held back, so that one struct packs a run of numbers.
            case FixedWidth(code, _):
                self._run.append((code, expression))
            case Struct(table):
                self._struct(table, expression, nullable)
            case Array(element):
                self._array(element, expression, nullable)
            case Records():
                self._records(expression)
            case _:
                self._bytes(wire_type, expression, nullable)

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """An expression for the bytes of a run."""
        codes = "".join(code for code, _ in run)
        # A constant is faster than a struct with one zero byte.
        if codes == "x":
            return "b'\\0'"
        # A compact length alone: the table saves the call to struct.
        if codes == "B":
            return f"ONE_BYTE[{run[0][1]}]"
        arguments = ", ".join(expression for code, expression in run if code != "x")
        return f"{self._source.packer('pack', codes)}({arguments})"

    def _flush(self) -> None:
        if self._run:
            self._source.line(f"{self._add}({self._packed(self._run)})")
            self._run = []

    def _length(self, wire_type: WireType, length: str) -> None:
        """Write the run and the length bound to `length`; a compact one is already one higher."""
        source, run = self._source, self._run
        short = [*run, (length_code(wire_type, self._flexible), length)]
        self._run = []
        # Lengths of the old form have a fixed width, so the struct always has room for them.
        if not self._flexible:
            source.line(f"{self._add}({self._packed(short)})")
            return
        # A length below 128 is one byte and fits the struct; nearly all texts and arrays are that short.
        with source.block(f"if {length} < 128"):
            source.line(f"{self._add}({self._packed(short)})")
        with source.block("else"):
            before = f"{self._packed(run)} + " if run else ""
            source.line(f"{self._add}({before}uvarint({length}))")

    def _count(self, expression: str, nullable: bool, local: str) -> str:
        """Binds `local` to the value and returns the name of its length as the wire wants it."""
        source, length = self._source, self._source.fresh("length")
        # KIP-482: compact lengths are one higher, so that 0 can be null.
        counted = f"len({local}) + 1" if self._flexible else f"len({local})"
        null = "0" if self._flexible else "-1"
        source.line(f"{local} = {expression}")
        source.line(f"{length} = {null} if {local} is None else {counted}" if nullable else f"{length} = {counted}")
        return length

    def _bytes(self, wire_type: WireType, expression: str, nullable: bool) -> None:
        local = self._source.fresh("raw")
        if isinstance(wire_type, Text):
            if nullable:
                text = self._source.fresh("text")
                self._source.line(f"{text} = {expression}")
                # Encoded before its length is taken, which counts bytes and not characters.
                expression = f"None if {text} is None else {text}.encode()"
            else:
                expression += ".encode()"
        self._length(wire_type, self._count(expression, nullable, local))
        if nullable:
            # Null and empty values have no bytes after their length.
            with self._source.block(f"if {local}"):
                self._source.line(f"{self._add}({local})")
        else:
            self._source.line(f"{self._add}({local})")

    def _records(self, expression: str) -> None:
        """Null stays null; no buffers at all are zero bytes."""
        source, buffers, length = self._source, self._source.fresh("records"), self._source.fresh("length")
        # The size of a tagged field is known only once it is joined, which would copy the records.
        assert self._add == "add", "records inside a tagged field cannot pass uncopied"
        source.line(f"{buffers} = {expression}")
        with source.block(f"if {buffers} is None"):
            source.line(f"{length} = {0 if self._flexible else -1}")
        with source.block("else"):
            # Callers may pass one buffer; the fetch path passes a list of views.
            with source.block(f"if type({buffers}) is not list"):
                source.line(f"{buffers} = [{buffers}]")
            source.line(f"{length} = {1 if self._flexible else 0}")
            with source.block(f"for buffer in {buffers}"):
                source.line(f"{length} += len(buffer)")
        self._length(Records(), length)
        with source.block(f"if {buffers}"):
            source.line("out.append(join(pieces))")
            # The list is emptied in place: `add` is bound to it.
            source.line("pieces.clear()")
            source.line(f"out += {buffers}")

    def _array(self, element: WireType, expression: str, nullable: bool) -> None:
        source, items, item = self._source, self._source.fresh("items"), self._source.fresh("item")
        self._length(Array(element), self._count(expression, nullable, items))
        some = f"{items} or ()" if nullable else items
        with source.block(f"for {item} in {some}"):
            if isinstance(element, Struct):
                self.table(element.table, item)
            else:
                self._value(element, item, nullable=False)
                self._flush()

    def _struct(self, table: type[Any], expression: str, nullable: bool) -> None:
        source, local = self._source, self._source.fresh("item")
        self._flush()
        source.line(f"{local} = {expression}")
        if not nullable:
            self.table(table, local)
            return
        with source.block(f"if {local} is None"):
            # A nullable struct begins with a presence byte, -1 for null (KIP-893).
            source.line(f"{self._add}(b'\\xff')")
        with source.block("else"):
            self._run.append(("b", "1"))
            self.table(table, local)

    def _tagged_fields(self, table: type[Any], tagged: list[tuple[int, str, Row]], target: str) -> None:
        """Fields at their default are left out; when all are, that costs one comparison each."""
        source = self._source
        changed = [
            (tag, f"{target}.{field}", row, self._is_changed(table, target, field, row)) for tag, field, row in tagged
        ]
        with source.block(f"if {' or '.join(condition for *_, condition in changed)}"):
            # Each field is collected apart, because its size precedes it.
            outer, present = self._add, source.fresh("present")
            source.line(f"{present} = []")
            for tag, expression, row, condition in changed:
                with source.block(f"if {condition}"):
                    self._tagged_field(tag, expression, row, present)
                self._add = outer
            source.line(f"{self._add}(uvarint(len({present})))")
            source.line(f"{self._add}(join({present}))")
        with source.block("else"):
            source.line(f"{self._add}(b'\\0')")

    def _tagged_field(self, tag: int, expression: str, row: Row, present: str) -> None:
        source, field = self._source, self._source.fresh("field")
        self._add = f"{field}.append"
        source.line(f"{field} = []")
        self._value(row.wire_type, expression, row.is_nullable(self._version))
        self._flush()
        source.line(f"{field} = join({field})")
        source.line(f"{present}.append(uvarint({tag}) + uvarint(len({field})) + {field})")

    def _is_changed(self, table: type[Any], target: str, field: str, row: Row) -> str:
        expression = f"{target}.{field}"
        # An array is at its default when it is empty, which its truth tells.
        if row.default == () and isinstance(row.wire_type, Array):
            return expression
        if row.default is None:
            return f"{expression} is not None"
        if isinstance(row.default, int | str):
            return f"{expression} != {row.default!r}"
        default = self._source.constant(f"{table.__name__}_{field}", row.default)
        # Most messages hold the shared default instance itself, so identity is tested first.
        return f"({expression} is not {default} and {expression} != {default})"
