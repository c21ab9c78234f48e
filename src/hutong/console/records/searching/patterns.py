"""Texts and regular expressions to look for in bytes.

Strategy: RE2 alone, whose time grows with the text and never with the pattern's tricks; its memory has a bound.
"""

from typing import Any, Final, Protocol

from hutong.console.limits import CONDITION_CHARS_MAX
from hutong.console.records.searching.refusals import WrongSearch

_MEMORY_BYTES_MAX: Final = 1 << 20


class Pattern(Protocol):
    """Something to look for."""

    def is_in(self, data: bytes) -> bool: ...


class _Regex:
    def __init__(self, regex: Any) -> None:
        self._regex = regex

    def is_in(self, data: bytes) -> bool:
        return self._regex.search(data) is not None


class _Exact:
    def __init__(self, needle: bytes) -> None:
        self._needle = needle

    def is_in(self, data: bytes) -> bool:
        return self._needle in data


def compiled(text: str, *, ignores_case: bool, is_literal: bool = False) -> Pattern:
    """Raises WrongSearch for an expression that RE2 does not take."""
    if len(text) > CONDITION_CHARS_MAX:
        raise WrongSearch(f"a text to look for has at most {CONDITION_CHARS_MAX} characters")
    try:
        needle = text.encode()
    except UnicodeEncodeError:
        raise WrongSearch("a text to look for has no lone surrogates") from None
    if is_literal and not ignores_case:
        return _Exact(needle)
    import re2  # few consoles search, and every start would pay for it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY_BYTES_MAX
    options.case_sensitive = not ignores_case
    options.literal = is_literal
    # The library's own translation of a str would not find what is no UTF-8.
    try:
        return _Regex(re2.compile(needle, options))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise WrongSearch(f"{text[:100]} is no regular expression of RE2: {told[:200]}") from None
