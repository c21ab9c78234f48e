"""Arrow batches with keys and values as bytes become batches with typed ones, and what does not fit is dealt with.

The bytes of a column are decoded one by one and laid out as a column again; strings in one check over all of them. An
error names the topic, partition, offset, and the field where there are fields.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hutong.pipelines.errors import BadRecord
from hutong.pipelines.schemas.registry import shared_registry
from hutong.pipelines.source.decode.columns import SCHEMA
from hutong.pipelines.source.rows.arrow import arrow_type, column_of
from hutong.pipelines.source.rows.avro import avro_reader
from hutong.pipelines.source.rows.formats import (
    FAIL,
    PARTS,
    SKIP,
    UNDECODABLE_COLUMN,
    Format,
    RowFormat,
)
from hutong.pipelines.source.rows.framing import unframed
from hutong.pipelines.source.rows.json_rows import json_reader
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage
from hutong.pipelines.source.rows.protobuf.reader import protobuf_reader
from hutong.pipelines.source.rows.protobuf.registered import PlacedReader, RegisteredMessages
from hutong.pipelines.source.rows.registered import RegisteredReader

UNDECODABLE = pa.struct(
    [pa.field("part", pa.string()), pa.field("reason", pa.string()), pa.field("content", pa.binary())]
)

Problems = dict[int, tuple[str, str]]
"""By row: "key" or "value", and why it cannot be decoded."""


class RowDecoder:
    """Turns the batches of one partition into rows with the columns `names`."""

    def __init__(self, topic: str, partition: int, names: Sequence[str], row: RowFormat) -> None:
        self._names = tuple(names)
        self._where = f"{topic}-{partition}"
        self._row = row
        formats = {"key": row.key, "value": row.value}
        self._parts = {part: _PartDecoder(formats[part]) for part in PARTS if part in names}
        self.schema = pa.schema([self._field(name) for name in names])

    @property
    def read_names(self) -> tuple[str, ...]:
        """The columns that the batches must have: offsets are needed to tell of errors."""
        return tuple(dict.fromkeys([*(name for name in self._names if name != UNDECODABLE_COLUMN), "offset"]))

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The same rows, typed; None when none is left. Raises BadRecord."""
        problems: Problems = {}
        columns = {name: batch.column(name) for name in batch.schema.names}
        for part, decoder in self._parts.items():
            columns[part] = self._decode_part(part, decoder, columns, problems)
        if UNDECODABLE_COLUMN in self._names:
            columns[UNDECODABLE_COLUMN] = _undecodable_column(batch, problems)
        rows = pa.RecordBatch.from_arrays([columns[name] for name in self._names], schema=self.schema)
        if not problems or self._row.undecodable != SKIP:
            return rows
        kept = pa.array([number not in problems for number in range(batch.num_rows)])
        rows = rows.filter(kept)
        return rows if rows.num_rows else None

    def _decode_part(
        self, part: str, decoder: "_PartDecoder", columns: dict[str, pa.Array], problems: Problems
    ) -> pa.Array:
        def failed(number: int, reason: str) -> None:
            if self._row.undecodable == FAIL:
                raise BadRecord(self._sentence(part, decoder.name, columns["offset"][number].as_py(), reason))
            problems.setdefault(number, (part, reason))

        return decoder.decode(columns[part], failed)

    def _sentence(self, part: str, name: str, offset: int, reason: str) -> str:
        form = _WORDS[name]
        advice = f"set {part}Format to binary" if name == "string" else f"correct {part}Schema"
        return (
            f"the {part} at offset {offset} of {self._where} is not {form}: {reason}; {advice}, or set "
            "onUndecodable to null, skip or keep"
        )

    def _field(self, name: str) -> pa.Field:
        if name in self._parts:
            return pa.field(name, self._parts[name].type)
        return pa.field(name, UNDECODABLE) if name == UNDECODABLE_COLUMN else SCHEMA.field(name)


_WORDS = {
    "string": "UTF-8 text",
    "json": "JSON of its schema",
    "avro": "Avro of its schema",
    "protobuf": "Protobuf of its schema",
}


class _PartDecoder:
    """One column of bytes into one of type `type`."""

    def __init__(self, form: Format) -> None:
        self.name = form.name
        self.type = arrow_type(form.kind)
        self._is_framed = form.is_framed
        self._read: Callable[[bytes], Any] | None = None
        if form.name == "json":
            self._read = json_reader(form.kind)
        elif form.plan is not None and form.registry is not None:
            # It takes the frame itself: the id in it determines how to read what follows.
            self._is_framed = False
            self._read = _by_registry(form)
        elif isinstance(form.plan, ProtoMessage):
            self._read = PlacedReader(form.plan) if form.is_framed else protobuf_reader(form.plan)
        elif form.plan is not None:
            self._read = avro_reader(form.plan)

    def decode(self, column: pa.Array, failed: Callable[[int, str], None]) -> pa.Array:
        """Decode a column. Undecodable rows are reported to `failed`, which may raise, and become null."""
        if self._read is None:
            return column if self.name == "binary" else _strings(column, failed)
        values = [
            None if content is None else self._value(content, number, failed)
            for number, content in enumerate(column.to_pylist())
        ]
        return column_of(values, self.type, failed)

    def _value(self, content: bytes, number: int, failed: Callable[[int, str], None]) -> Any:
        assert self._read is not None
        try:
            if self._is_framed:
                _, content = unframed(content)
            return self._read(content)
        except ValueError as error:
            failed(number, str(error))
            return None


def _by_registry(form: Format) -> Callable[[bytes], Any]:
    assert form.registry is not None, "it is given"
    assert form.plan is not None, "its format has one"
    registry = shared_registry(form.registry)
    if isinstance(form.plan, ProtoMessage):
        return RegisteredMessages(form.plan, registry.protobuf_files)
    return RegisteredReader(form.plan, form.recursion_max, registry.avro_text)


def _strings(column: pa.Array, failed: Callable[[int, str], None]) -> pa.Array:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(content, number, failed) for number, content in enumerate(column.to_pylist())])


def _text(content: bytes | None, number: int, failed: Callable[[int, str], None]) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        failed(number, f"byte {error.start} is no part of a character")
        return None


def _undecodable_column(batch: pa.RecordBatch, problems: Problems) -> pa.Array:
    rows: list[tuple[str, str, bytes | None] | None] = [None] * batch.num_rows
    for number, (part, reason) in problems.items():
        rows[number] = part, reason, batch.column(part)[number].as_py()
    return pa.array(rows, UNDECODABLE)
