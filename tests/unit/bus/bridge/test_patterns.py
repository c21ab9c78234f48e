"""Expressions that could take long are refused; those taken stay short on the worst addresses."""

import re
import time

import pytest

from hutong.bus.bridge.patterns import PATTERN_CHARACTERS_MAX, compile_pattern
from hutong.bus.bridge.permissions import ADDRESS_CHARACTERS_MAX
from hutong.foundation.errors import UsageError


@pytest.mark.parametrize(
    "text",
    [
        r"chat\..*",
        r".*",
        r".+\..+",
        r"(?i)chat\.(room|hall)\.\w+",
        r"(?:a|b)?c.*|d.*|e.*|f.*|g.*",
        r"[]]+x[^]]*",
        r"a{,5}b{2}c{2,}?",
        r"(ab)*+c",
        r"(?P<kind>news|weather)\.[a-z-]{1,20}",
        r"a\{1,2\}",
        r"a{b}",
    ],
)
def test_ordinary_expressions_are_taken(text: str) -> None:
    assert compile_pattern(text).pattern == text


@pytest.mark.parametrize(
    "text",
    [
        r"(a+)+",
        r"(a|a)*",
        r"(a?)+",
        r"(.*)*x",
        r"((a){1,5})*",
        r".*.*.*x",
        r"x*" * 100,
        r"a?" * 30 + "a" * 30,
        r"(a|a)" * 30,
        r"(a?){70}",
        r"(a?){30}",
        r"(a)\1",
        r"(?P<n>a)(?P=n)",
        r"(?=a)a",
        r"(?<!a)b",
        r"(a)(?(1)b|c)",
        r"(",
        r"a**",
        r"[",
        "a" * (PATTERN_CHARACTERS_MAX + 1),
    ],
)
def test_expressions_that_are_wrong_or_could_take_long_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_pattern(text)
    assert caught.value.exit_code == 78
    assert str(caught.value).startswith("The bridge permission '")


@pytest.mark.parametrize(
    "text",
    [r".*a.*b", r"a*a*" + "a?" * 2 + "b", "a?" * 16 + "a" * 184, "(?:a|a|a|a){8}b", "|".join(["a*a*b"] * 4)],
)
def test_what_is_taken_is_matched_in_little_time(text: str) -> None:
    """In processor time, with room for a slow machine; the least costly of what is refused takes many times that."""
    pattern = compile_pattern(text)
    began = time.process_time()
    for address in ("a" * ADDRESS_CHARACTERS_MAX, "a" * (ADDRESS_CHARACTERS_MAX - 1) + "!"):
        pattern.fullmatch(address)
    assert time.process_time() - began < 0.25


def test_the_reader_agrees_with_the_engine_about_where_groups_end() -> None:
    for text in (r"[)]a", r"\)a", r"(a[)]b)", r"([\])]+)x", r"[^]a-]+"):
        assert compile_pattern(text) == re.compile(text)
