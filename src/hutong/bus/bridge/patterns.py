"""Regular expressions that may be asked about addresses which an attacker chose.

Strategy: Python's engine backtracks, so some expressions take time exponential in the length of what they are matched
with. Such an expression is refused when it is read, not when it has stopped the loop. The reader counts in how many
ways an expression can try a text: those of parts that follow each other are multiplied, those of alternatives added.
More than WAYS_MAX are too many, and so is repeating without bound what can be tried in more than one way. With the
bound on addresses (`permissions`) this keeps every match within milliseconds; docs/bridges.md has the figure.

The text is read here just far enough for that; whether it is an expression at all is `re.compile`'s to say.
"""

import re
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError

PATTERN_CHARACTERS_MAX: Final = 500
WAYS_MAX: Final = 2**16
_WAYS_OF_A_REPETITION: Final = 128  # without bound, on 200 characters: two that follow each other have 200 * 200 / 2
_BOUNDED_REPEAT_MAX: Final = 64  # {m,n} above which a repetition counts as one without bound
_QUANTIFIER: Final = re.compile(r"[*+?]|\{(\d{0,9})(,?)(\d{0,9})\}")
_GROUP_START: Final = re.compile(r"\?(?:P<\w+>|:|[aimsux]*(?:-[ims]+)?:|[aimsux]+(?=\)))")


def compile_pattern(text: str) -> re.Pattern[str]:
    """The expression, for `fullmatch`. Raises UsageError where it is none, too long, or could take too long."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise _refused(text[:40] + "...", f"has more than {PATTERN_CHARACTERS_MAX} characters")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise _refused(text, f"is no regular expression ({error})") from None
    try:
        ways = _PatternReader(text).alternatives()
    except _Slow as error:
        raise _refused(text, str(error)) from None
    if ways > WAYS_MAX:
        raise _refused(text, "can be tried in too many ways; use fewer of * + ? and {m,n}")
    return pattern


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(f"The bridge permission {text!r} {reason}.", ExitCode.CONFIG)


class _Slow(Exception):
    """Carries the reason."""


class _PatternReader:
    """Reads one expression from left to right, counting the ways of each part."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def alternatives(self) -> int:
        """The alternatives up to the closing bracket or the end."""
        ways = self._sequence()
        while self._next_is("|"):
            self._at += 1
            ways += self._sequence()
        return ways

    def _sequence(self) -> int:
        ways = 1
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            ways *= self._repeated(self._atom())
            if ways > WAYS_MAX:
                return ways * len(self._text)  # enough is known, and numbers stay small
        return ways

    def _repeated(self, inside: int) -> int:
        """The ways of an atom with the quantifier behind it, if there is one."""
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None or found.group() in ("{}", "{,}"):
            return inside
        self._at = found.end()
        if self._at < len(self._text) and self._text[self._at] in "?+":  # not greedy, or possessive: no slower
            self._at += 1
        least, most = _bounds(found)
        if most > _BOUNDED_REPEAT_MAX:
            if inside > 1:
                raise _Slow("repeats without bound what can be tried in more than one way")
            return _WAYS_OF_A_REPETITION
        ways: int = inside**most * (most - least + 1)
        return min(WAYS_MAX + 1, ways)

    def _atom(self) -> int:
        start = self._text[self._at]
        self._at += 1
        if start == "\\":
            if self._text[self._at].isdigit() and self._text[self._at] != "0":
                raise _Slow("refers back to what it matched")
            self._at += 1
        elif start == "[":
            self._class()
        elif start == "(":
            return self._group()
        return 1

    def _class(self) -> None:
        if self._next_is("^"):
            self._at += 1
        first = self._at  # a closing bracket here is meant as itself
        while self._at == first or not self._next_is("]"):
            self._at += 2 if self._next_is("\\") else 1
        self._at += 1

    def _group(self) -> int:
        if self._next_is("?"):
            start = _GROUP_START.match(self._text, self._at)
            if start is None:
                raise _Slow("looks ahead, looks back or asks for a condition")
            self._at = start.end()
        ways = self.alternatives()
        if ways > WAYS_MAX:
            raise _Slow("can be tried in too many ways; use fewer of * + ? and {m,n}")
        self._at += 1
        return ways

    def _next_is(self, character: str) -> bool:
        return self._text.startswith(character, self._at)


def _bounds(quantifier: re.Match[str]) -> tuple[int, int]:
    """Least and most repetitions; a most beyond the bound means none."""
    if quantifier.group() == "?":
        return 0, 1
    if quantifier.group() in ("*", "+"):
        return 0, _BOUNDED_REPEAT_MAX + 1
    least, comma, most = quantifier.groups()
    if not comma:
        return int(least), int(least)
    return int(least or 0), int(most) if most else _BOUNDED_REPEAT_MAX + 1
