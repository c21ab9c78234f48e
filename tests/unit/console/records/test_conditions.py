"""Conditions of a search: texts, expressions, paths, ranges, and what hostile ones cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.records.made import record

from hutong.bus.durable.records import StoredRecord
from hutong.console.limits import CONDITION_CHARS_MAX, PATH_STEPS_MAX, VALUE_BYTES_MAX
from hutong.console.records.searching.conditions import Conditions, TextCondition
from hutong.console.records.searching.json_path import parse_json_condition
from hutong.console.records.searching.patterns import compiled
from hutong.console.records.searching.refusals import WrongSearch

ORDER = {"a": {"b": [{"n": 3, "s": "three"}]}, "x-y": True, "none": None, "t": "9", "f": 2.5, "two words": 1}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$", True),
        ("$.a.b[0].n", True),
        ("$.a.b[1].n", False),
        ("$.a.b[0].n = 3", True),
        ("$.a.b[0].n=3.0", True),
        ("$.a.b[0].n == 3", True),
        ("$.a.b[0].n != 3", False),
        ("$.a.b[0].n >= 3", True),
        ("$.a.b[0].n < 3", False),
        ("$.a.b[0].n = '3'", False),
        ("$.a.b[0].s = three", True),
        ('$.a.b[0].s = "three"', True),
        ("$.a.b[0].s ~ ^th.*e$", True),
        ("$.a.b[0].n ~ 3", False),
        ("$.x-y = true", True),
        ("$.x-y = 1", False),
        ("$.none = null", True),
        ("$.missing != 1", True),
        ("$.missing = null", False),
        ("$.t > 10", False),
        ('$.t > "10"', True),
        ("$.f > 2", True),
        ('$["two words"] = 1', True),
        ("$.a[0]", False),
        ("$[0]", False),
    ],
)
def test_a_condition_on_a_path(text: str, holds: bool) -> None:
    assert parse_json_condition(text).holds(ORDER) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a.b", "begins with"),
        ("$.", "after \\$ comes"),
        ("$.a..b", "after \\$.a comes"),
        ("$.a[*]", "after \\$.a comes"),
        ("$.a[-1]", "after \\$.a comes"),
        ("$.a 5", "comes an operator"),
        ("$.a =", "comes a value"),
        ('$.a = "x', "is no JSON string"),
        ("$.a = [1]", "is compared with"),
        ("$.a < true", "compares with"),
        ("$.a ~ (", "no regular expression"),
        ("$.a ~ (a)\\1", "no regular expression"),
        ("$" + ".a" * (PATH_STEPS_MAX + 1), "at most 32 steps"),
        ("$.a = " + "1" * CONDITION_CHARS_MAX, "at most 1000 characters"),
        ('$["\ud800"]', "no JSON string"),
    ],
)
def test_what_is_no_condition_says_why(text: str, why: str) -> None:
    with pytest.raises(WrongSearch, match=why):
        parse_json_condition(text)


def text(words: str, place: str = "anywhere", *, is_literal: bool = True, ignores_case: bool = True) -> Conditions:
    return Conditions((TextCondition(compiled(words, ignores_case=ignores_case, is_literal=is_literal), place),))


FOUND = record(7, b"Value \xff one", key=b"Key", headers=[("Name", b"told"), ("none", None)])


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        (text("value"), True),
        (text("value", ignores_case=False), False),
        (text("Value", ignores_case=False), True),
        (text("value", "key"), False),
        (text("key", "key"), True),
        (text("name", "headers"), True),
        (text("TOLD"), True),
        (text("^Val.*one$", is_literal=False), False),  # a byte that is no UTF-8 is no character
        (text("^Val", is_literal=False), True),
        (text("a.c"), False),
        (Conditions(partitions=frozenset({1})), False),
        (Conditions(partitions=frozenset({0})), True),
        (Conditions(offset_begin=7, offset_end=8), True),
        (Conditions(offset_begin=8), False),
        (Conditions(offset_end=7), False),
        (Conditions(time_begin_ms=1_000, time_end_ms=1_001), True),
        (Conditions(time_end_ms=1_000), False),
        (Conditions(time_begin_ms=1_001), False),
        (Conditions(paths=(("value", parse_json_condition("$")),)), False),
    ],
)
def test_a_record_meets_all_conditions(conditions: Conditions, holds: bool) -> None:
    assert conditions.hold(FOUND) is holds


def test_paths_of_key_and_value() -> None:
    paths = (("key", parse_json_condition("$.id = 1")), ("value", parse_json_condition("$.a")))
    assert Conditions(paths=paths).hold(record(0, b'{"a":0}', key=b'{"id":1}'))
    assert not Conditions(paths=paths).hold(record(0, b'{"a":0}', key=None))


@pytest.mark.parametrize(
    "hostile",
    [
        record(0, b"[" * 500_000),
        record(0, b"x" * (VALUE_BYTES_MAX + 9)),
        record(0, b'{"a":' + b"1" * 100_000 + b"}"),
        record(0, None, headers=[(f"h{number}", b"x" * 100) for number in range(20_000)]),
    ],
)
def test_hostile_records_only_match_or_do_not(hostile: StoredRecord) -> None:
    conditions = Conditions(
        (TextCondition(compiled("(a+)+$", ignores_case=True)),), (("value", parse_json_condition("$.a = 1")),)
    )
    assert not conditions.hold(hostile)


def test_what_is_behind_the_bound_is_not_looked_at() -> None:
    assert not text("needle").hold(record(0, b"x" * VALUE_BYTES_MAX + b"needle"))
    assert text("needle").hold(record(0, b"x" * (VALUE_BYTES_MAX - 6) + b"needle"))


@pytest.mark.parametrize("words", ["(?P<a", "a{1001}", "(" * 900])
def test_expressions_that_re2_does_not_take_are_refused(words: str) -> None:
    with pytest.raises(WrongSearch):
        compiled(words, ignores_case=True)


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


@given(st.text(max_size=60), documents)
def test_any_text_is_a_condition_or_is_refused(words: str, document: Any) -> None:
    for condition in (words, f"${words}", f"$.a{words}"):
        try:
            parse_json_condition(condition).holds(document)
        except WrongSearch:
            continue
