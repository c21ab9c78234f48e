"""Avro's rules by which a reader's schema resolves what a writer wrote (Avro 1.12, "Schema Resolution").

Strategy: pairs of types are compared once; a pair that is being compared counts as compatible, so recursive types come
to an end. A union of the reader takes what one of its branches takes.
"""

from typing import Final

from hutong.registry.formats.avro_types import AvroField, AvroType
from hutong.registry.formats.shape import Troubles

_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
"""From the writer's kind to the reader's."""


class AvroComparison:
    """One comparison; `troubles` has what it found."""

    def __init__(self) -> None:
        self.troubles = Troubles()
        self._seen: dict[tuple[int, int], bool] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str = "") -> bool:
        """True where the reader resolves all that the writer may write."""
        return self._compare(reader, writer, path, self.troubles)

    def _compare(self, reader: AvroType, writer: AvroType, path: str, troubles: Troubles) -> bool:
        self.troubles.count()
        key = id(reader), id(writer)
        # Types live as long as the comparison, so their ids are theirs.
        if key not in self._seen:
            self._seen[key] = True
            self._seen[key] = self._resolve(reader, writer, path, troubles)
        # Its reasons were noted where the pair was met first, perhaps in a branch that did not matter.
        elif not self._seen[key]:
            troubles.add("TYPE_MISMATCH", path, "the types do not fit, as elsewhere in the schema")
        return self._seen[key]

    def _resolve(self, reader: AvroType, writer: AvroType, path: str, troubles: Troubles) -> bool:
        if writer.kind == "union":
            results = [
                self._compare(reader, branch, f"{path}/{index}", troubles)
                for index, branch in enumerate(writer.branches)
            ]
            return all(results)
        if reader.kind == "union":
            return self._one_branch(reader, writer, path, troubles)
        if reader.kind != writer.kind:
            if (writer.kind, reader.kind) in _PROMOTIONS:
                return True
            troubles.add("TYPE_MISMATCH", path, f"the reader has {reader.kind}, the writer {writer.kind}")
            return False
        if reader.items is not None and writer.items is not None:
            member = "items" if reader.kind == "array" else "values"
            return self._compare(reader.items, writer.items, f"{path}/{member}", troubles)
        return self._named(reader, writer, path, troubles) if reader.name else True

    def _one_branch(self, reader: AvroType, writer: AvroType, path: str, troubles: Troubles) -> bool:
        aside = Troubles()  # a branch that does not fit is no trouble if another one does
        for branch in sorted(reader.branches, key=lambda each: each.name != writer.name or each.kind != writer.kind):
            if self._compare(branch, writer, path, aside):
                return True
        troubles.add("MISSING_UNION_BRANCH", path, f"no branch of the reader takes {writer.name or writer.kind}")
        return False

    def _named(self, reader: AvroType, writer: AvroType, path: str, troubles: Troubles) -> bool:
        is_same = True
        # Unqualified, as the specification has it; an alias of the reader is a full name.
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            troubles.add("NAME_MISMATCH", f"{path}/name", f"the reader has {reader.name}, the writer {writer.name}")
            is_same = False
        if reader.kind == "fixed" and reader.size != writer.size:
            troubles.add("FIXED_SIZE_MISMATCH", f"{path}/size", f"the reader has {reader.size}, not {writer.size}")
            is_same = False
        if reader.kind == "enum" and reader.default is None:
            missing = [each for each in writer.symbols if each not in frozenset(reader.symbols)]
            if missing:
                lacking = ", ".join(missing[:10])
                troubles.add("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"the reader has no {lacking} and no default")
                is_same = False
        return self._fields(reader, writer, path, troubles) and is_same

    def _fields(self, reader: AvroType, writer: AvroType, path: str, troubles: Troubles) -> bool:
        written = {each.name: each for each in writer.fields}
        is_readable = True
        for index, each in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            found = _field_of(each, written)
            if found is not None:
                is_readable &= self._compare(each.type, found.type, f"{place}/type", troubles)
            elif not each.has_default:
                why = f"the reader's field {each.name} has no default, and the writer has no such field"
                troubles.add("READER_FIELD_MISSING_DEFAULT_VALUE", place, why)
                is_readable = False
        return is_readable


def _field_of(reader: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    for name in (reader.name, *reader.aliases):
        if name in written:
            return written[name]
    return None
