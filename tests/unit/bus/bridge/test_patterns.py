"""Expressions that could take long are refused; those taken stay short on the worst addresses."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from hutong.bus.bridge.patterns import PATTERN_CHARACTERS_MAX, WAYS_MAX, compile_pattern
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


STEPS_MAX = 4 * WAYS_MAX


class Backtracker:
    """Matches as the engine does, greedily and from left to right, and counts how often it tries an element."""

    def __init__(self, text: str) -> None:
        self.steps = 0
        self._text = text

    def matches(self, expression: str) -> bool:
        parsed = re._parser.parse(expression)  # type: ignore[attr-defined]
        return self._sequence(list(parsed), 0, lambda at: at == len(self._text))

    def _sequence(self, items: list[Any], at: int, then: Callable[[int], bool]) -> bool:
        if not items:
            return then(at)
        return self._item(items[0], at, lambda end: self._sequence(items[1:], end, then))

    def _item(self, item: Any, at: int, then: Callable[[int], bool]) -> bool:
        self.steps += 1
        if self.steps > STEPS_MAX:
            return True  # enough is known
        kind, detail = str(item[0]), item[1]
        if kind in ("LITERAL", "ANY"):
            return self._takes(item, at) and then(at + 1)
        if kind == "SUBPATTERN":
            return self._sequence(list(detail[3]), at, then)
        if kind == "BRANCH":
            return any(self._sequence(list(branch), at, then) for branch in detail[1])
        assert kind == "MAX_REPEAT", kind
        least, most, inside = detail
        if len(inside) > 1 or str(inside[0][0]) not in ("LITERAL", "ANY"):
            return self._sequence(list(inside) * least, at, then)  # such as {8}
        return self._characters(inside[0], least, most, at, then)

    def _characters(self, item: Any, least: int, most: int, at: int, then: Callable[[int], bool]) -> bool:
        end = at
        while end - at < most and self._takes(item, end):
            end += 1
            self.steps += 1
        return any(then(stop) for stop in range(end, at + least - 1, -1))

    def _takes(self, item: Any, at: int) -> bool:
        return at < len(self._text) and (str(item[0]) == "ANY" or ord(self._text[at]) == item[1])


def steps_of(expression: str) -> int:
    """The most of what the worst addresses cost."""
    steps = []
    for address in ("a" * ADDRESS_CHARACTERS_MAX, "a" * (ADDRESS_CHARACTERS_MAX - 1) + "!"):
        run = Backtracker(address)
        assert run.matches(expression) == bool(re.fullmatch(expression, address)) or run.steps > STEPS_MAX
        steps.append(run.steps)
    return max(steps)


@pytest.mark.parametrize(
    "text",
    [r".*a.*b", r"a*a*" + "a?" * 2 + "b", "a?" * 10 + "a" * 190, "(?:a|a|a|a){8}b", "|".join(["a*a*b"] * 4)],
)
def test_what_is_taken_is_matched_in_few_steps(text: str) -> None:
    compile_pattern(text)
    assert steps_of(text) <= STEPS_MAX


@pytest.mark.parametrize("text", [r".*a.*a.*b", "(?:a|a|a|a){10}b"])
def test_what_is_refused_would_have_taken_more(text: str) -> None:
    with pytest.raises(UsageError):
        compile_pattern(text)
    assert steps_of(text) > STEPS_MAX


def test_the_reader_agrees_with_the_engine_about_where_groups_end() -> None:
    for text in (r"[)]a", r"\)a", r"(a[)]b)", r"([\])]+)x", r"[^]a-]+"):
        assert compile_pattern(text) == re.compile(text)
