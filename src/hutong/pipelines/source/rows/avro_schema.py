"""An Avro schema, read into a plan for reading its binary form, and the Spark type that this gives.

Types are mapped as Spark's own Avro support does: a union with null is the other type, nullable; a union of numbers is
the wider one; any other union is a struct with a member for each branch.

No column can hold a record that contains itself. As with Spark's `recursiveFieldMaxDepth`, such a record is unfolded so
many times, and fields that would hold it once more are left out (`Again`): their bytes are read and dropped. Without
that number it is refused. Knows nothing of bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructField, StructOf

SCHEMA_CHARACTERS_MAX = 2**20
NODES_MAX = 10_000
"""Named types may stand in many places, so that a short schema could stand for a huge one."""
FIXED_BYTES_MAX = 2**20
RECURSION_MAX = 15
"""The most that Spark's own Avro support unfolds."""
PRIMITIVES: Mapping[str, str | None] = {
    "null": None,
    "boolean": kinds.BOOLEAN,
    "int": kinds.INT,
    "long": kinds.BIGINT,
    "float": kinds.FLOAT,
    "double": kinds.DOUBLE,
    "bytes": kinds.BINARY,
    "string": kinds.STRING,
}
LOGICAL_TIMES: Mapping[tuple[str, str], tuple[str, int]] = {
    ("int", "date"): (kinds.DATE, 1),
    ("long", "timestamp-millis"): (kinds.TIMESTAMP, 1000),
    ("long", "timestamp-micros"): (kinds.TIMESTAMP, 1),
    ("long", "local-timestamp-millis"): (kinds.TIMESTAMP_NTZ, 1000),
    ("long", "local-timestamp-micros"): (kinds.TIMESTAMP_NTZ, 1),
}
"""The Spark type, and by what a number is multiplied for it."""

WIDER = ((Scalar(kinds.INT), Scalar(kinds.BIGINT)), (Scalar(kinds.FLOAT), Scalar(kinds.DOUBLE)))


@dataclass(frozen=True, slots=True)
class Primitive:
    """`name` as Avro has it. `kind` is None for null alone; numbers are multiplied by `factor`."""

    name: str
    kind: Kind | None
    factor: int = 1


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """`size` bytes; bytes without a size carry their length (-1). With a decimal type they are a number."""

    size: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Enumeration:
    """`default` replaces a symbol that is not among them, if given."""

    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """An array, or a map whose keys are strings."""

    item: "Plan"
    is_map: bool


@dataclass(frozen=True, slots=True)
class FieldRules:
    """The rules of a field for readers of records that were written by another schema.

    `default` is JSON; without `has_default` there is none.
    """

    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """`full_name` is what `Again` inside it may refer to. `rules` are those of the fields."""

    names: tuple[str, ...]
    fields: tuple["Plan", ...]
    full_name: str = ""
    rules: tuple[FieldRules, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Again:
    """A record like the nearest around it of that name, which is not unfolded any more and has no place in a column."""

    full_name: str


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types. `is_struct`: each branch that is not null has a member of its own."""

    branches: tuple["Plan", ...]
    kind: Kind | None
    is_struct: bool


Plan: TypeAlias = Primitive | FixedBytes | Enumeration | Items | RecordPlan | Again | Union


def parse_avro(text: str, recursion_max: int | None = None) -> Plan:
    """Return the plan of a schema; a record that contains itself occurs in it `recursion_max` times.

    Raises ValueError.
    """
    # Before parsing: json would build objects of all of it.
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {SCHEMA_CHARACTERS_MAX} characters")
    try:
        # json's recursion is bounded by Python's stack, hence RecursionError and not a limit of its own.
        schema = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return _AvroParser(recursion_max).plan(schema, "", 0)


def is_left_out(plan: Plan) -> bool:
    """Return True for a record beyond its recursion limit, which has no column."""
    match plan:
        case Again():
            return True
        case Items(item):
            return is_left_out(item)
        # A union whose branches are all left out or null has no type.
        case Union(branches, None):
            return any(map(is_left_out, branches))
        case _:
            return False


def kind_of(plan: Plan) -> Kind | None:
    """The Spark type of what is read; None for null alone and for what is left out."""
    if is_left_out(plan):
        return None
    match plan:
        case Again():
            return None
        case Primitive(kind=kind) | FixedBytes(kind=kind) | Union(kind=kind):
            return kind
        case Enumeration():
            return Scalar(kinds.STRING)
        case Items(item, is_map):
            inner = _some(item)
            return MapOf(inner) if is_map else ArrayOf(inner)
        case RecordPlan(names, fields):
            # A field beyond the recursion limit has no column; the reader still skips its bytes.
            kept = [(name, one) for name, one in zip(names, fields, strict=True) if not is_left_out(one)]
            return StructOf(tuple(StructField(name, _some(one)) for name, one in kept))


def _some(plan: Plan) -> Kind:
    kind = kind_of(plan)
    if kind is None:
        # Spark has no type for a column that holds null alone in Parquet and elsewhere.
        raise ValueError("it has a field that is always null: leave that out")
    return kind


@dataclass(slots=True)
class _AvroParser:
    recursion_max: int | None
    named: dict[str, Any] = field(default_factory=dict)
    open_counts: dict[str, int] = field(default_factory=dict)
    """The number of enclosing occurrences of each record. No zeros."""
    node_count: int = 0

    def plan(self, schema: Any, namespace: str, depth: int) -> Plan:
        self.node_count += 1
        # Unfolding multiplies: with two self-references per record, each level doubles the nodes.
        if depth > kinds.TYPE_DEPTH_MAX or self.node_count > NODES_MAX:
            unfolded = "" if self.recursion_max is None else ", unfolded: set recursiveFieldMaxDepth to less"
            raise ValueError(
                f"its types are nested deeper than {kinds.TYPE_DEPTH_MAX}, or are more than {NODES_MAX}{unfolded}"
            )
        # A primitive, or the name of a type that was defined before (Avro 1.11, Schema Declaration).
        if isinstance(schema, str):
            return self._by_name(schema, namespace, depth)
        # A JSON array is a union.
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict) or "type" not in schema:
            raise ValueError(f"{json.dumps(schema)[:80]} is no Avro type")
        name = schema["type"]
        match name:
            # The three types that Avro names, and that may be used before by name.
            case "record" | "enum" | "fixed":
                return self._named(schema, namespace, depth)
            case "array":
                return Items(self.plan(_part(schema, "items"), namespace, depth + 1), is_map=False)
            case "map":
                return Items(self.plan(_part(schema, "values"), namespace, depth + 1), is_map=True)
            # The long form of a primitive, which may carry a logical type.
            case str() if name in PRIMITIVES:
                return _primitive(name, schema)
            case _:
                # The type of a type is a schema of its own: {"type": {"type": "array", ...}}.
                return self.plan(name, namespace, depth + 1)

    def _by_name(self, name: str, namespace: str, depth: int) -> Plan:
        if name in PRIMITIVES:
            return _primitive(name, {})
        full = _full(name, namespace)
        # A name without a namespace may also refer to the null namespace (Avro 1.11, Names).
        full = full if full in self.named else name
        if full in self.open_counts:
            # Spark's own from_avro has the option recursiveFieldMaxDepth with this meaning.
            if self.recursion_max is None:
                raise ValueError(
                    f"type {name} contains itself, which no column can hold: set the option recursiveFieldMaxDepth to "
                    f"how many times it shall be unfolded, 1 to {RECURSION_MAX}"
                )
            if self.open_counts[full] >= self.recursion_max:
                return Again(full)
        if full not in self.named:
            raise ValueError(f"type {name} is not defined in it")
        # Read again at each use: how far a record unfolds depends on the records around it.
        definition, inside = self.named[full]
        return self._definition(definition, full, inside, depth)

    def _named(self, schema: Mapping[str, Any], namespace: str, depth: int) -> Plan:
        name = _part(schema, "name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"a type has {name!r} for a name")
        full = _full(name, schema.get("namespace", namespace))
        if full in self.named:
            # Unfolding visits one definition several times: the same object is no second definition.
            if self.named[full][0] is not schema:
                raise ValueError(f"type {full} is defined twice")
            return self._by_name(full, "", depth)  # the enclosing type occurs in another place, too
        inside = full.rpartition(".")[0]
        # Known before its fields are read, since they may refer to it.
        self.named[full] = schema, inside
        return self._definition(schema, full, inside, depth)

    def _definition(self, schema: Mapping[str, Any], full: str, inside: str, depth: int) -> Plan:
        match schema["type"]:
            case "enum":
                symbols = tuple(_texts(_part(schema, "symbols"), f"the symbols of {full}"))
                default = schema.get("default")
                return Enumeration(symbols, default if default in symbols else None)
            case "fixed":
                size = _part(schema, "size")
                # Every value takes this many bytes, so a forged size is refused with the schema.
                if not isinstance(size, int) or not 0 <= size <= FIXED_BYTES_MAX:
                    raise ValueError(f"the size of {full} is not from 0 to {FIXED_BYTES_MAX}")
                return FixedBytes(size, _decimal(schema) or Scalar(kinds.BINARY))
        # The count of enclosing occurrences, not of all: siblings may each unfold to the limit.
        around = self.open_counts.get(full, 0)
        self.open_counts[full] = around + 1
        fields = _part(schema, "fields")
        if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
            raise ValueError(f"the fields of {full} are no list of fields")
        names = _texts([_part(one, "name") for one in fields], f"the fields of {full}")
        plans = tuple(self.plan(_part(one, "type"), inside, depth + 1) for one in fields)
        # Zeros are removed, since membership means "enclosing".
        if around:
            self.open_counts[full] = around
        else:
            del self.open_counts[full]
        return RecordPlan(tuple(names), plans, full, tuple(map(_rules, fields)))

    def _union(self, branches: Sequence[Any], namespace: str, depth: int) -> Plan:
        plans = tuple(self.plan(branch, namespace, depth + 1) for branch in branches)
        typed = [kind for kind in map(kind_of, plans) if kind is not None]
        # Every branch is null or was left out.
        if not typed:
            if any(map(is_left_out, plans)):
                return Union(plans, None, is_struct=False)
            raise ValueError("it has a union without a type")
        # Spark's from_avro widens [int, long] to long and [float, double] to double.
        wider = next((wide for narrow, wide in WIDER if len(typed) == 2 and set(typed) == {narrow, wide}), None)
        if wider or len(typed) == 1:
            return Union(plans, wider or typed[0], is_struct=False)
        # Spark's name for the branches of other unions: member0, member1 and so on.
        members = tuple(StructField(f"member{number}", kind) for number, kind in enumerate(typed))
        return Union(plans, StructOf(members), is_struct=True)


def _rules(one: Mapping[str, Any]) -> FieldRules:
    aliases = one.get("aliases", [])
    # What is malformed is ignored, as in every other reader; only evolution would need it.
    named = tuple(name for name in aliases if isinstance(name, str)) if isinstance(aliases, list) else ()
    return FieldRules("default" in one, one.get("default"), named)


def _primitive(name: str, schema: Mapping[str, Any]) -> Plan:
    logical = schema.get("logicalType")
    # An unknown logical type is ignored, as the specification demands.
    if isinstance(logical, str) and (name, logical) in LOGICAL_TIMES:
        spark_name, factor = LOGICAL_TIMES[name, logical]
        return Primitive(name, Scalar(spark_name), factor)
    # Bytes are a fixed type whose length is written before each value.
    if name == "bytes":
        return FixedBytes(-1, _decimal(schema) or Scalar(kinds.BINARY))
    spark = PRIMITIVES[name]
    return Primitive(name, None if spark is None else Scalar(spark))


def _decimal(schema: Mapping[str, Any]) -> DecimalOf | None:
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    # The precision is required; the scale is 0 unless given (Avro, Decimal).
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise ValueError("a decimal has no precision")
    # 38 digits are the most of Spark's DecimalType.
    if not 0 < precision <= kinds.DECIMAL_PRECISION_MAX or not 0 <= scale <= precision:
        raise ValueError(f"a decimal of precision {precision} and scale {scale} does not fit: take at most 38 digits")
    return DecimalOf(precision, scale)


def _part(schema: Mapping[str, Any], name: str) -> Any:
    if name not in schema:
        raise ValueError(f"{json.dumps(schema)[:80]} has no {name}")
    return schema[name]


def _texts(values: Any, what: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ValueError(f"{what} are no list of names")
    # Avro forbids a name twice, and Spark could not address the second field.
    if len(set(values)) < len(values):
        raise ValueError(f"{what} are not all different")
    return values


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
