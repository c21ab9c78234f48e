"""Values checked by JSON schemas: as a library that we did not write decides, and hostile ones."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import Draft7Validator, validator_for

from hutong.foundation.errors import ProtocolError, Refused
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.shape import NamedText
from hutong.registry.formats.writing.steps import WriteSteps
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import SchemaText

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def check(document: Any, value: Any, imports: tuple[NamedText, ...] = (), steps_max: int = 50_000) -> None:
    text = SchemaText("JSON", json.dumps(document))
    WrittenBySchema(ResolvedText(text, imports), SchemaChecks()).write(value, WriteSteps(steps_max))


def is_valid(document: Any, value: Any) -> bool:
    try:
        check(document, value)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize(
    ("document", "valid", "invalid"),
    [
        (False, [], [1]),
        ({"type": ["integer", "null"]}, [1, 1.0, None, 10**400], [1.5, True, "1"]),
        ({"const": {"a": [1]}}, [{"a": [1.0]}], [{"a": [True]}, {"a": []}, {}]),
        ({"enum": [1, "a"]}, [1.0, "a"], [True, "b", None]),
        ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9, "x"], [0.9, 3]),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, [1.1], [1]),
        ({"multipleOf": 0.1}, [0.3, 7], [0.35]),
        ({"minLength": 2, "maxLength": 2}, ["éé", 1], ["a", "abc"]),
        ({"items": {"type": "integer"}, "minItems": 1}, [[1], "x"], [[], ["a"]]),
        ({"items": [{"type": "integer"}], "additionalItems": False}, [[1], []], [["a"], [1, 2]]),
        ({"$schema": LATEST, "prefixItems": [{"type": "integer"}], "items": False}, [[1]], [[1, 2]]),
        ({"uniqueItems": True}, [[1, True, [1], [True], "1"], [0, False]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
        ({"contains": {"type": "string"}}, [[1, "a"]], [[], [1]]),
        ({"$schema": LATEST, "contains": {"const": 1}, "minContains": 2, "maxContains": 2}, [[1, 1]], [[1], [1, 1, 1]]),
        ({"required": ["a"], "maxProperties": 1}, [{"a": 1}, []], [{}, {"a": 1, "b": 1}]),
        ({"properties": {"a": {"type": "null"}}, "additionalProperties": False}, [{"a": None}], [{"a": 1}, {"b": 1}]),
        ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1, "b": 1}, {}], [{"a": 1}, {"c": 1}]),
        ({"$schema": LATEST, "dependentRequired": {"a": ["b"]}}, [{}], [{"a": 1}]),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, [3], [2, "a"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [3, None], ["a"]),
        ({"oneOf": [{"minimum": 3}, {"maximum": 5}]}, [2, 6], [4]),
        ({"not": {"type": "string"}}, [1], ["a"]),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}}, ["ab", 2], ["a", 1]),
        ({"definitions": {"t": {"items": {"$ref": "#/definitions/t"}, "type": "array"}}, "$ref": "#/definitions/t"},
         [[[], [[]]]], [[1], 5]),
        ({"$ref": "#/definitions/any", "maximum": 1, "definitions": {"any": {}}}, [5], []),
        ({"$schema": LATEST, "$ref": "#/$defs/any", "maximum": 1, "$defs": {"any": {}}}, [1], [5]),
    ],
)  # fmt: skip
def test_the_library_decides_alike(document: Any, valid: list[Any], invalid: list[Any]) -> None:
    other = validator_for(document, default=Draft7Validator)(document)
    for value in valid:
        assert is_valid(document, value)
        # The library divides by doubles, in which 0.3 is no multiple of 0.1.
        assert other.is_valid(value) or document == {"multipleOf": 0.1}
    for value in invalid:
        assert not is_valid(document, value), value
        assert not other.is_valid(value), value


SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2.5]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "object", "array", "number", "string", "integer"])
FLAT = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
        "const": SMALL,
        "enum": st.lists(SMALL, min_size=1, max_size=3),
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        "minProperties": st.integers(0, 2),
    },
)
DOCUMENTS = st.recursive(
    st.booleans() | FLAT,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **{name: st.lists(inner, min_size=1, max_size=2) for name in ("allOf", "anyOf", "oneOf", "items")},
            **dict.fromkeys(("not", "if", "then", "else", "contains", "additionalItems"), inner),
            **dict.fromkeys(("additionalProperties", "propertyNames"), inner),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "dependencies": st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
        },
    ),
    max_leaves=5,
)


@given(DOCUMENTS, SMALL)
def test_any_schema_decides_as_the_library(document: Any, value: Any) -> None:
    assert is_valid(document, value) == Draft7Validator(document).is_valid(value)


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ({"not": {"pattern": "^b"}}, "a"),
        ({"oneOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "a"),
        ({"if": {"format": "date"}, "then": False, "else": False}, "2026-01-01"),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}),
        ({"$schema": LATEST, "contains": {"pattern": "^b"}, "maxContains": 1}, ["a", "a"]),
    ],
)
def test_what_is_not_looked_at_refuses_nothing(document: Any, value: Any) -> None:
    assert is_valid(document, value)


def test_the_place_of_a_trouble_is_named() -> None:
    document = {"properties": {"lines": {"items": {"properties": {"n": {"type": "integer"}}}}}}
    with pytest.raises(ProtocolError, match="at /lines/1/n: it is not of type integer"):
        check(document, {"lines": [{"n": 1}, {"n": "x"}]})


def test_imports_find_what_is_in_them() -> None:
    line = {"$ref": "#/definitions/count", "definitions": {"count": {"type": "integer"}}}
    imports = (NamedText("line.json", json.dumps(line)),)
    document = {"items": {"$ref": "line.json"}, "definitions": {"count": {"type": "string"}}}
    check(document, [1], imports)
    with pytest.raises(ProtocolError, match="at /0"):
        check(document, ["a"], imports)
    broken = (NamedText("line.json", '{"$ref": "#/nowhere"}'),)
    with pytest.raises(ProtocolError, match="which is not there"):
        check(document, [1], broken)
    with pytest.raises(Refused):
        check(document, [1])


LOOP = {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}
DOUBLED: dict[str, Any] = {"d0": {"type": "integer"}}
for level in range(1, 40):
    DOUBLED[f"d{level}"] = {"allOf": [{"$ref": f"#/definitions/d{level - 1}"}] * 2}
EQUAL = {"const": list(range(1_000))}
ODD = {"default": {"allOf": 5, "required": [1, {}], "minLength": "x", "properties": 3, "enum": {}, "items": [7]},
       "$ref": "#/default"}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "value", "why"),
    [
        (LOOP, 1, "nested more than 100 deep"),
        ({"definitions": DOUBLED, "$ref": "#/definitions/d39"}, 1, "too many steps"),
        ({"items": {"not": {"anyOf": [EQUAL, EQUAL]}}}, [[*range(999), 0]] * 1_000, "too many steps"),
        ({"uniqueItems": True}, [[n] for n in range(30_000)], "too many steps"),
        ({"additionalProperties": {}, "dependencies": {str(n): ["x"] for n in range(1_000)}}, {}, None),
        (ODD, {"1": [], "{}": [1]}, None),
        ({"pattern": "(a+)+$"}, "a" * 50 + "b", None),
        ({"maximum": 5}, float("nan"), None),
    ],
)
def test_hostile_schemas_and_values_end_soon(document: Any, value: Any, why: str | None) -> None:
    if why is None:
        check(document, value)
        return
    with pytest.raises(ProtocolError, match=why):
        check(document, value)


def test_deep_values_are_refused() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    with pytest.raises(ProtocolError, match="nested"):
        check({"uniqueItems": True}, [value])
    with pytest.raises(ProtocolError, match="nested"):
        check({"definitions": {"t": {"items": {"$ref": "#/definitions/t"}}}, "$ref": "#/definitions/t"}, value)
