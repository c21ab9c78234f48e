"""Reads a schema as Spark SQL writes it: `user STRING, bytes BIGINT NOT NULL, tags ARRAY<STRING>`.

Spark has a parser for this in Java; this one works without Java, and reports an error in one sentence.
"""

import difflib
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructField, StructOf

SCHEMA_CHARACTERS_MAX = 2**20
SCALARS = {name: name for name in kinds.SCALARS} | {
    "BYTE": kinds.TINYINT,
    "SHORT": kinds.SMALLINT,
    "INTEGER": kinds.INT,
    "LONG": kinds.BIGINT,
    "REAL": kinds.FLOAT,
    "TIMESTAMP_LTZ": kinds.TIMESTAMP,
}
"""Spark's names of types, its synonyms too."""
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
NESTED = ("ARRAY", "MAP", "STRUCT")
TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_]+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))")

T = TypeVar("T")


def parse_ddl(text: str) -> Kind:
    """Parse columns as a struct, or a single type. Raises ValueError."""
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {SCHEMA_CHARACTERS_MAX} characters")
    tokens = _tokens(text)
    if not tokens:
        raise ValueError("it is empty: write columns with their types, as in 'user STRING, bytes BIGINT'")
    first, second = tokens[0].upper(), tokens[1] if len(tokens) > 1 else ""
    # One type: a name alone, or a parameterized one. Everything else begins with a column's name.
    if (first in NESTED and second == "<") or not second or (first in DECIMALS and second == "("):
        return _DdlParser(tokens).whole(lambda parser: parser.kind(0))
    return _DdlParser(tokens).whole(lambda parser: parser.fields(0))


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = TOKEN.match(text, position)
        if not found:
            raise ValueError(f"'{text[position : position + 20].strip()}' cannot be read there")
        tokens.append(found[0].strip())
        position = found.end()
    return tokens


class _DdlParser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def whole(self, read: "Callable[[_DdlParser], T]") -> T:
        result = read(self)
        if self._position < len(self._tokens):
            self._fail("a comma or the end")
        return result

    def fields(self, depth: int) -> StructOf:
        fields = [self._field(depth)]
        while self._skip(","):
            fields.append(self._field(depth))
        names = [field.name.lower() for field in fields]
        repeated = sorted({name for name in names if names.count(name) > 1})
        # By default Spark compares column names without regard to case.
        if repeated:
            raise ValueError(f"it names {', '.join(repeated)} twice")
        return StructOf(tuple(fields))

    def kind(self, depth: int) -> Kind:
        # The parser is recursive, and the text is the user's.
        if depth > kinds.TYPE_DEPTH_MAX:
            raise ValueError(f"its types are nested deeper than {kinds.TYPE_DEPTH_MAX}")
        name = self._next("a type")
        match name.upper():
            case "ARRAY":
                return ArrayOf(self._in_brackets(lambda: self.kind(depth + 1)))
            case "MAP":
                return MapOf(self._in_brackets(lambda: self._map_value(depth + 1)))
            case "STRUCT":
                return self._in_brackets(lambda: self.fields(depth + 1))
            case decimal if decimal in DECIMALS:
                return self._decimal()
            case scalar if scalar in SCALARS:
                return Scalar(SCALARS[scalar])
        near = difflib.get_close_matches(name.upper(), [*SCALARS, *DECIMALS, *NESTED], 1)
        raise ValueError(f"{name} is no type that can be read" + (f": did you mean {near[0]}?" if near else ""))

    def _field(self, depth: int) -> StructField:
        name = self._next("the name of a column")
        # Other names need backticks, as in Spark SQL.
        if not re.fullmatch(r"\w+|`.+`", name):
            raise ValueError(f"{name} stands where the name of a column is expected")
        self._skip(":")
        kind = self.kind(depth)
        required = self._skip("NOT")
        if required:
            self._expect("NULL")
        # Comments have no place in a source's schema; they are read so that a copied schema is accepted.
        if self._skip("COMMENT"):
            self._next("a comment")
        return StructField(name[1:-1].replace("``", "`") if name.startswith("`") else name, kind, required)

    def _map_value(self, depth: int) -> Kind:
        # Neither JSON nor Avro has other keys.
        if self.kind(depth) != Scalar(kinds.STRING):
            raise ValueError("the keys of a MAP must be STRING")
        self._expect(",", "a comma")
        return self.kind(depth)

    def _decimal(self) -> DecimalOf:
        precision, scale = 10, 0
        if self._skip("("):
            precision = self._number()
            if self._skip(","):
                scale = self._number()
            self._expect(")")
        # 38 digits are the limit of Spark's DecimalType.
        if not 0 < precision <= kinds.DECIMAL_PRECISION_MAX or scale > precision:
            raise ValueError(
                f"DECIMAL({precision},{scale}) has no room: take at most {kinds.DECIMAL_PRECISION_MAX} digits"
            )
        return DecimalOf(precision, scale)

    def _number(self) -> int:
        text = self._next("a number")
        if not text.isdecimal() or len(text) > 4:
            raise ValueError(f"{text} stands where a number is expected")
        return int(text)

    def _in_brackets(self, read: Callable[[], T]) -> T:
        self._expect("<")
        result = read()
        self._expect(">")
        return result

    def _next(self, what: str) -> str:
        if self._position >= len(self._tokens):
            raise ValueError(f"it ends where {what} is expected")
        self._position += 1
        return self._tokens[self._position - 1]

    def _skip(self, token: str) -> bool:
        if self._position < len(self._tokens) and self._tokens[self._position].upper() == token:
            self._position += 1
            return True
        return False

    def _expect(self, token: str, name: str | None = None) -> None:
        if not self._skip(token):
            self._fail(name or token)

    def _fail(self, expected: str) -> NoReturn:
        found = self._tokens[self._position] if self._position < len(self._tokens) else "the end"
        raise ValueError(f"{found} stands where {expected} is expected")
