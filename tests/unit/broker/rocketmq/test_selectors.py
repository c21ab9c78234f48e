"""Selectors in SQL92: what they take, what they refuse, and what hostile ones cost."""

from random import Random

import pytest
from tests.support.selector_texts import damaged, properties, selector_text

from hutong.broker.rocketmq.selectors.parser import TERMS_MAX, selector
from hutong.broker.rocketmq.selectors.terms import DEPTH_MAX
from hutong.broker.rocketmq.selectors.tokens import CHARACTERS_MAX, SelectorError, tokens_of
from hutong.broker.rocketmq.selectors.values import NUMBER_CHARACTERS_MAX, Incomparable, compared, double_of

MESSAGE = {"price": "12", "region": "north", "note": "it's late", "flag": "true", "zero": "-0.0", "odd": "NaN"}


@pytest.mark.parametrize(
    ("expression", "takes"),
    [
        ("price > 10 AND region = 'north'", True),
        ("price > 10 AND NOT (region = 'north')", False),
        ("price BETWEEN 10 AND 12", True),
        ("price NOT BETWEEN 10 AND 11.5", True),
        ("price BETWEEN -1 AND - 2", False),
        ("region IN ('south', 'north')", True),
        ("region NOT IN ('south', 'east')", True),
        ("missing IN ('south') OR missing NOT IN ('south')", False),
        ("note = 'it''s late'", True),
        ("note CONTAINS '''s' AND note STARTSWITH 'it' AND note ENDSWITH 'late'", True),
        ("note NOT CONTAINS 'early' AND note NOT STARTSWITH 'a' AND note NOT ENDSWITH 'z'", True),
        ("note CONTAINS ''", False),
        ("missing IS NULL and price is not null", True),
        ("flag = TRUE", True),
        ("flag", False),
        ("TRUE", True),
        ("NULL", False),
        ("NOT NULL", False),
        # Unknown is neither true nor false.
        ("missing > 1 OR price = 12", True),
        ("missing > 1", False),
        ("NOT (missing > 1)", False),
        ("missing = 1", False),
        ("missing <> 1", False),
        ("missing = other", True),
        ("price <> missing", True),
        # What cannot be compared fails as a whole.
        ("region > 1 OR TRUE", False),
        ("TRUE OR region > 1", True),
        ("price = 12.0 /* a comment */ -- another\n AND price = 12", True),
        ("zero = 0.5 OR zero > -0.5", True),
        ("zero < 1", False),
        ("odd > 1e300", True),
        ("+price = 12L", True),
    ],
)
def test_a_selector_takes(expression: str, takes: bool) -> None:
    assert selector(expression)(MESSAGE) is takes


@pytest.mark.parametrize(
    "expression",
    [
        "", "a =", "a = 'x", "a = 1 b", "a > 'x'", "a > TRUE", "a = NULL", "1", "'x' AND TRUE", "a IN ()", "a IN (1)",
        "1 IN ('x')", "a BETWEEN 2 AND 1", "a BETWEEN NULL AND 1", "a LIKE 'x%'", "a + 1 = 2", "(a", "a)", "a = 007",
        "a = 9223372036854775808", "a = 0.0", "a = 1e999", "TRUE = 1", "@", "a = 1 /* b", "NOT 1", "(a = 1) > 2",
        "a IS 1", "a IS NOT 1", "a NOT 1", "\u212aa = 1",
    ],
)  # fmt: skip
def test_what_is_no_selector_is_refused(expression: str) -> None:
    with pytest.raises(SelectorError):
        selector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 4_000 + "a" + ")" * 4_000,
        "NOT " * 2_000 + "a",
        "-" * 8_000 + "a",
        "a" + " = TRUE" * 1_000,
        "a" + " IS NULL" * 1_000,
        "a CONTAINS 'x'" + " CONTAINS 'x'" * 600,
        "a OR " * 1_500 + "a",
        "a IN ('x'" + ",'x'" * 1_500 + ")",
        "a = " + "1" * 8_000,
        "a = ." + "1" * 8_000,
        "a = 'x'" + " " * CHARACTERS_MAX,
        "'" * 8_001,
        "/*" * 4_000,
        "--" * 4_000,
    ],
    ids=range(14),
)
def test_a_hostile_selector_is_refused(expression: str) -> None:
    with pytest.raises(SelectorError):
        selector(expression)


def test_the_largest_selectors_are_taken() -> None:
    assert selector(" OR ".join(["a = 'x'"] * (TERMS_MAX // 2)))({"a": "x"})
    assert selector("(" * (DEPTH_MAX - 1) + "a = 'x'" + ")" * (DEPTH_MAX - 1))({"a": "x"})


def test_long_text_is_no_number() -> None:
    assert double_of("1" * NUMBER_CHARACTERS_MAX) == float("inf")
    for text in ("1" * (NUMBER_CHARACTERS_MAX + 1), "1_0", "inf", "nan", "0x1", "NaNd", "\u0663", "1 2", ""):
        with pytest.raises(Incomparable):
            double_of(text)
    assert [double_of(text) for text in (" 1d\t", "-.5f", "0x1p99999", "-0x1p99999")] == [
        1,
        -0.5,
        float("inf"),
        -float("inf"),
    ]


def test_numbers_are_ordered_as_in_java() -> None:
    ordered = [-float("inf"), -1.5, -0.0, 0.0, 1.0, float("inf"), float("nan")]
    for at, left in enumerate(ordered):
        for other, right in enumerate(ordered):
            assert compared(left, right) == (at > other) - (at < other)
    assert compared(2**31, str(2**40)) < 0
    with pytest.raises(Incomparable):
        compared(2**31 - 1, str(2**40))  # an Integer in Java


def test_whatever_comes_is_taken_or_refused() -> None:
    random = Random(1)
    taken = 0
    for _ in range(3_000):
        text = selector_text(random)
        for expression in (text, damaged(random, text)):
            try:
                takes = selector(expression)
            except SelectorError:
                continue
            assert takes(properties(random)) in (True, False)
            taken += 1
    assert taken > 1_000


def test_tokens_cover_the_text() -> None:
    text = "a>=-1.5e3 AND b<>'x''y' -- c\n"
    assert [(token.kind.value, token.text) for token in tokens_of(text)] == [
        ("name", "a"), ("mark", ">="), ("mark", "-"), ("float", "1.5e3"), ("keyword", "AND"), ("name", "b"),
        ("mark", "<>"), ("string", "x'y"), ("end", "the end"),
    ]  # fmt: skip
