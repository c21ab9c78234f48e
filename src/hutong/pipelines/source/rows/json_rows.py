"""JSON into rows of a schema: each document is parsed and checked against the types in one go, by msgspec.

Strict where Spark's `from_json` gives a silent null: a value of another type, a number out of range, a missing required
field is an error that names the field. Fields that the schema does not name are skipped. Objects come back as
dictionaries, which Arrow takes as rows of a struct.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Required, TypeAlias, TypedDict

import msgspec

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructField, StructOf

BITS = {kinds.TINYINT: 8, kinds.SMALLINT: 16, kinds.INT: 32, kinds.BIGINT: 64}
OTHERS: dict[str, type] = {
    kinds.BOOLEAN: bool,
    kinds.FLOAT: float,
    kinds.DOUBLE: float,
    kinds.STRING: str,
    kinds.BINARY: bytes,  # base64 in JSON, as Spark has it
    kinds.DATE: datetime.date,
    kinds.TIMESTAMP: datetime.datetime,
    kinds.TIMESTAMP_NTZ: datetime.datetime,
}
EXPONENT_MAX = 1000
"""pyarrow 26 ends the process with a segmentation fault at 1E-999999999. A decimal has 38 digits at most."""
Check: TypeAlias = Callable[[Any], None]
AT_FIELD = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<field>.+)`$")


def json_reader(kind: Kind) -> Callable[[bytes], Any]:
    """A function from a document to its value; None for `null`. It raises ValueError that names the field."""
    decoder = msgspec.json.Decoder(_optional(_annotation(kind)))
    check = _decimal_check(kind)

    def read(document: bytes) -> Any:
        try:
            value = decoder.decode(document)
        except msgspec.ValidationError as error:
            raise ValueError(_field_first(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no JSON: {error}") from None
        if check is not None and value is not None:
            check(value)
        return value

    return read


def _decimal_check(kind: Kind) -> Check | None:
    """Raises ValueError for decimals that Arrow must not see; None where the type has none."""
    match kind:
        case DecimalOf():
            return _check_exponent
        case ArrayOf(element):
            return _check_each(_decimal_check(element), iter)
        case MapOf(inner):
            return _check_each(_decimal_check(inner), dict.values)
        case StructOf(fields):
            checks = [(field.name, check) for field in fields if (check := _decimal_check(field.kind)) is not None]
            return _check_fields(checks) if checks else None
        case _:
            return None


def _check_exponent(value: decimal.Decimal) -> None:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) > EXPONENT_MAX:  # infinities and NaN have letters for one
        raise ValueError(f"a decimal has the exponent {exponent}")


def _check_each(check: Check | None, items: Callable[[Any], Iterable[Any]]) -> Check | None:
    if check is None:
        return None

    def check_items(value: Any) -> None:
        for item in items(value):
            if item is not None:
                check(item)

    return check_items


def _check_fields(checks: Sequence[tuple[str, Check]]) -> Check:
    def check_fields(value: dict[str, Any]) -> None:
        for name, check in checks:
            try:
                if value.get(name) is not None:
                    check(value[name])
            except ValueError as error:
                text = str(error)
                is_path = text.startswith("field ")
                raise ValueError(f"field {name}.{text[6:]}" if is_path else f"field {name}: {text}") from None

    return check_fields


def _field_first(message: str) -> str:
    """msgspec's message with the field first, and without the null that every type here may be."""
    message = message.replace(" | null`", "`").replace("$[...]", "$.[...]")
    found = AT_FIELD.match(message)
    return f"field {found['field']}: {found['what']}" if found else message


def _annotation(kind: Kind) -> Any:
    match kind:
        case Scalar(name) if name in BITS:
            limit = 1 << (BITS[name] - 1)
            return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
        case Scalar(name):
            return OTHERS[name]
        case DecimalOf():
            return decimal.Decimal
        case ArrayOf(element):
            return list[_optional(_annotation(element))]  # type: ignore[misc]
        case MapOf(value):
            return dict[str, _optional(_annotation(value))]  # type: ignore[misc]
        case StructOf(fields):
            # A TypedDict made by hand: names of fields are any text, and the class is as nameless as the struct.
            return TypedDict("Row", {field.name: _field(field) for field in fields}, total=False)  # type: ignore[operator]


def _field(field: StructField) -> Any:
    annotation = _annotation(field.kind)
    return Required[annotation] if field.required else _optional(annotation)


def _optional(annotation: Any) -> Any:
    return annotation | None
