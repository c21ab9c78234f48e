"""Values of one Avro schema as those of another, by the rules of Avro's schema resolution.

The writer's schema determines the bytes, so they are read by it (`avro`); what comes of that is then laid out for the
reader: fields by name or alias, defaults for those that are absent, wider numbers. Names of records are not compared,
as long as their fields fit. Two timestamps of different units keep their instant. What can never fit is said at once;
what fits some values alone, such as one branch of a union, is said where a value does not.

Knows nothing of bytes.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.avro_schema import (
    Again,
    Enumeration,
    FieldRules,
    FixedBytes,
    Items,
    Plan,
    Primitive,
    RecordPlan,
    Union,
    is_left_out,
    kind_of,
)
from hutong.pipelines.source.rows.kinds import DecimalOf, Scalar

Convert: TypeAlias = Callable[[Any], Any]

PROMOTIONS = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
"""By what was written, as whose it may be read besides (Avro 1.12, Schema Resolution)."""
PAIRS_MAX = 50_000
INSTANTS = (kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ)


def conversion(writer: Plan, reader: Plan) -> Convert:
    """A function from values of the writer's plan to those of the reader's. It raises ValueError.

    Raises ValueError that names the field where no value can fit.
    """
    return _Resolver().of(writer, reader)


def default_of(plan: Plan, given: Any) -> Any:
    """The value of a default, which a schema has as JSON. Raises ValueError."""
    match plan:
        case Items(item, False) if isinstance(given, list):
            return [default_of(item, one) for one in given]
        case Items(item, True) if isinstance(given, dict):
            return [(key, default_of(item, one)) for key, one in given.items()]
        case RecordPlan() if isinstance(given, dict):
            return _record_default(plan, given)
        case Union():
            return _union_default(plan, given)
        case _:
            return _simple_default(plan, given)


class _TooManyPairs(ValueError):
    """Ends the comparison as a whole, and not that of one branch."""


class _Resolver:
    """Counts pairs of types: two schemas with unions in unions have as many as the product of their sizes."""

    def __init__(self) -> None:
        self._pair_count = 0

    def of(self, writer: Plan, reader: Plan) -> Convert:
        self._pair_count += 1
        if self._pair_count > PAIRS_MAX:
            raise _TooManyPairs(f"the two schemas have more than {PAIRS_MAX} pairs of types to compare")
        # Equal plans lay their values out alike.
        if writer == reader:
            return _same
        match writer, reader:
            # Beyond the depth to which a record is unfolded there is no column, or no value for it.
            case (Again(), _) | (_, Again()):
                return _nothing
            case Union(), _:
                return self._from_union(writer, reader)
            case _, Union():
                return self._to_union(writer, reader)
            case Items(item, is_map), Items(other, other_is_map) if is_map == other_is_map:
                return _items(self.of(item, other), is_map=is_map)
            case RecordPlan(), RecordPlan():
                return self._record(writer, reader)
            case _:
                return _simple(writer, reader)

    def _record(self, writer: RecordPlan, reader: RecordPlan) -> Convert:
        written = {name: plan for name, plan in zip(writer.names, writer.fields, strict=True) if not is_left_out(plan)}
        # Fields beyond the recursion limit have no place among the values.
        places = {name: place for place, name in enumerate(written)}
        parts = [
            (name, *self._field(name, plan, rules, writer, places))
            for name, plan, rules in zip(reader.names, reader.fields, _rules_of(reader), strict=True)
            if not is_left_out(plan)
        ]

        def convert(values: Sequence[Any]) -> tuple[Any, ...]:
            made = []
            for name, place, change in parts:
                try:
                    made.append(change(values[place] if place >= 0 else None))
                except ValueError as error:
                    raise _in_field(name, error) from None
            return tuple(made)

        return convert

    def _field(
        self, name: str, plan: Plan, rules: FieldRules, writer: RecordPlan, places: dict[str, int]
    ) -> tuple[int, Convert]:
        """The place of a reader's field among the written values, -1 for none, and what becomes of that value."""
        try:
            for known in (name, *rules.aliases):
                if known in places:
                    return places[known], self.of(writer.fields[writer.names.index(known)], plan)
            # It was written, and dropped beyond the recursion limit.
            if name in writer.names:
                return -1, _nothing
            if not rules.has_default:
                raise ValueError("it was not written, and has no default")
            value = default_of(plan, rules.default)
        except ValueError as error:
            raise _in_field(name, error) from None
        return -1, lambda _absent: value

    def _from_union(self, writer: Union, reader: Plan) -> Convert:
        """By branch: whether one fits is known before, and said where it is met."""
        branches: list[Convert] = [self._attempt(branch, reader) for branch in writer.branches]
        has_value = [kind_of(branch) is not None for branch in writer.branches]
        typed = [convert for convert, has in zip(branches, has_value, strict=True) if has]
        nulls = [convert for convert, has in zip(branches, has_value, strict=True) if not has]
        none = nulls[0] if nulls else _nothing

        def convert(value: Any) -> Any:
            if value is None:
                return none(None)
            if not writer.is_struct:
                return typed[-1](value)
            place = next((number for number, member in enumerate(value) if member is not None), None)
            return None if place is None else typed[place](value[place])

        return convert

    def _attempt(self, writer: Plan, reader: Plan) -> Convert:
        try:
            return self.of(writer, reader)
        except _TooManyPairs:
            raise
        except ValueError as error:
            reason = str(error)

        def refuse(_value: Any) -> Any:
            raise ValueError(reason)

        return refuse

    def _to_union(self, writer: Plan, reader: Union) -> Convert:
        """The reader's first branch of the same type, else the first that fits."""
        fitting: list[tuple[int, Convert]] = []
        for number, branch in enumerate(reader.branches):
            try:
                fitting.append((number, self.of(writer, branch)))
            except _TooManyPairs:
                raise
            except ValueError:
                continue
        if not fitting:
            raise ValueError(f"{_name(writer)} was written, which no branch of a union takes")
        place, convert = next((one for one in fitting if reader.branches[one[0]] == writer), fitting[0])
        return lambda value: _as_branch(reader, place, convert(value))


def _simple(writer: Plan, reader: Plan) -> Convert:
    """Of two types without parts."""
    match writer, reader:
        case Primitive(), Primitive():
            return _primitive(writer, reader)
        case Enumeration(), Enumeration():
            return _symbol(reader)
        case FixedBytes(size, kind), FixedBytes(other_size, other_kind) if size == other_size:
            return _bytes(kind, other_kind)
        # Bytes and strings are written alike (Avro 1.12, Schema Resolution).
        case FixedBytes(-1, Scalar()), Primitive("string"):
            return _decoded
        case Primitive("string"), FixedBytes(-1, Scalar()):
            return str.encode
        case _:
            raise ValueError(f"{_name(writer)} was written, which cannot be read as {_name(reader)}")


def _same(value: Any) -> Any:
    return value


def _nothing(_value: Any) -> None:
    return None


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"bytes were written that are no UTF-8 ({error.reason})") from None


def _primitive(writer: Primitive, reader: Primitive) -> Convert:
    if reader.name != writer.name and reader.name not in PROMOTIONS.get(writer.name, ()):
        raise ValueError(f"{writer.name} was written, which cannot be read as {reader.name}")
    if reader.name in ("float", "double"):
        return lambda value: float(value // writer.factor) if isinstance(value, int) else value
    # Avro compares the numbers; that would take milliseconds for microseconds.
    both_instants = all(isinstance(each.kind, Scalar) and each.kind.name in INSTANTS for each in (writer, reader))
    if writer.factor == reader.factor or both_instants:
        return _same
    return lambda value: value // writer.factor * reader.factor


def _bytes(writer: kinds.Kind, reader: kinds.Kind) -> Convert:
    match writer, reader:
        case DecimalOf(precision, scale), DecimalOf(reader_precision, reader_scale):
            # "Two decimals match if both scales and precisions match"; a wider precision holds them as well.
            if scale != reader_scale or precision > reader_precision:
                raise ValueError(f"a decimal of scale {scale} was written, which does not fit {kinds.ddl(reader)}")
            return _same
        case Scalar(), Scalar():
            return _same
        case _:
            raise ValueError(f"{kinds.ddl(writer)} was written, which cannot be read as {kinds.ddl(reader)}")


def _symbol(reader: Enumeration) -> Convert:
    def convert(symbol: str) -> str:
        if symbol in reader.symbols:
            return symbol
        if reader.default is None:
            raise ValueError(f"symbol {symbol!r} is unknown, and there is no default")
        return reader.default

    return convert


def _items(convert: Convert, *, is_map: bool) -> Convert:
    if is_map:
        return lambda pairs: [(key, convert(value)) for key, value in pairs]
    return lambda items: [convert(item) for item in items]


def _as_branch(union: Union, number: int, value: Any) -> Any:
    """The value of a branch, laid out for the union's column."""
    if not union.is_struct or kind_of(union.branches[number]) is None:
        return value
    has_value = [kind_of(branch) is not None for branch in union.branches]
    members: list[Any] = [None] * sum(has_value)
    members[sum(has_value[:number])] = value
    return tuple(members)


def _simple_default(plan: Plan, given: Any) -> Any:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    match plan:
        case Primitive("null") if given is None:
            return None
        case Primitive("boolean") if isinstance(given, bool):
            return given
        case Primitive("int" | "long", factor=factor) if is_number and isinstance(given, int):
            return given * factor
        case Primitive("float" | "double") if is_number:
            return float(given)
        case Primitive("string") | Enumeration() if isinstance(given, str):
            return given
        case FixedBytes(kind=kind) if isinstance(given, str) and max(given, default="") <= "\xff":
            # Each character is one byte (Avro 1.12, Complex Types, Records).
            content = given.encode("latin-1")
            if isinstance(kind, DecimalOf):
                return Decimal(f"{int.from_bytes(content, 'big', signed=True)}e-{kind.scale}")
            return content
        case _:
            raise ValueError(f"its default is {str(given)[:40]!r}, which does not fit {_name(plan)}")


def _record_default(plan: RecordPlan, given: dict[str, Any]) -> tuple[Any, ...]:
    values = []
    for name, one, rules in zip(plan.names, plan.fields, _rules_of(plan), strict=True):
        if is_left_out(one):
            continue
        if name not in given and not rules.has_default:
            raise ValueError(f"its default lacks the field {name}")
        values.append(default_of(one, given.get(name, rules.default)))
    return tuple(values)


def _union_default(union: Union, given: Any) -> Any:
    """Of the first branch that takes it: before Avro 1.12 only the first branch was allowed."""
    for number, branch in enumerate(union.branches):
        try:
            return _as_branch(union, number, default_of(branch, given))
        except ValueError:
            continue
    raise ValueError(f"its default is {str(given)[:40]!r}, which no branch of its union takes")


def _rules_of(plan: RecordPlan) -> tuple[FieldRules, ...]:
    return plan.rules or (FieldRules(),) * len(plan.names)


def _in_field(name: str, error: ValueError) -> ValueError:
    text = str(error)
    return ValueError(f"field {name}.{text[6:]}" if text.startswith("field ") else f"field {name}: {text}")


def _name(plan: Plan) -> str:
    match plan:
        case Primitive(name):
            return name
        case Enumeration():
            return "an enumeration"
        case Items(is_map=is_map):
            return "a map" if is_map else "an array"
        case RecordPlan():
            return "a record"
        case FixedBytes(size):
            return "bytes" if size < 0 else f"a fixed of {size} bytes"
        case _:
            return "a union"
