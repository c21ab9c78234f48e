"""The layout of a table in one version: its rows, and the least bytes they take."""

import struct
from typing import Any

from hutong.wire.kafka.schema import Array, FixedWidth, Records, Row, Struct, Text, WireType, rows_of


class TableAt:
    """A table as one version lays it out: `plain` rows in wire order, `tagged` ones by tag, `absent` ones left out."""

    def __init__(self, table: type[Any], version: int) -> None:
        rows = rows_of(table)
        self.plain = [(name, row) for name, row in rows if version in row.versions and row.tag is None]
        self.tagged = [(row.tag, name, row) for name, row in rows if version in row.versions and row.tag is not None]
        self.tagged.sort(key=lambda tagged: tagged[0])
        self.absent = [(name, row) for name, row in rows if version not in row.versions]


def size_min(wire_type: WireType, version: int, flexible: bool) -> int:
    """Return the least bytes a value takes. Array counts are checked against it before anything is allocated."""
    match wire_type:
        case FixedWidth(_, size):
            return size
        case Struct(table):
            sizes = [_row_size_min(row, version, flexible) for _, row in TableAt(table, version).plain]
            return sum(sizes) + flexible
        case _:
            return struct.calcsize(length_code(wire_type, flexible))


def has_records(table: type[Any], version: int) -> bool:
    """Return True if the version carries record batches at any depth."""
    for _, row in TableAt(table, version).plain:
        wire_type = row.wire_type.element if isinstance(row.wire_type, Array) else row.wire_type
        if isinstance(wire_type, Records) or (isinstance(wire_type, Struct) and has_records(wire_type.table, version)):
            return True
    return False


def length_code(wire_type: WireType, flexible: bool) -> str:
    """The struct code of the length before a value; for compact lengths, of its first byte."""
    if flexible:
        return "B"
    return "h" if isinstance(wire_type, Text) else "i"


def _row_size_min(row: Row, version: int, flexible: bool) -> int:
    if isinstance(row.wire_type, Struct) and row.is_nullable(version):
        return 1
    return size_min(row.wire_type, version, flexible)
