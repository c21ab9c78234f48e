"""The tokens of a selector.

    keyword   AND OR NOT BETWEEN IN IS NULL TRUE FALSE CONTAINS STARTSWITH ENDSWITH, in any case
    name      letters, digits, `_` and `$`, of a property
    string    'text', where '' is a quote
    number    12, 12L, 1.5, .5, 1e3
    mark      = <> > >= < <= ( ) , + -
    left out  spaces, /* comments */, and -- comments up to the end of their line

Each length is bounded before anything is read. Pure.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from hutong.foundation.errors import PeerError

CHARACTERS_MAX: Final = 8_192  # of an expression
_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)
_LINE_COMMENT: Final = re.compile(r"--[^\n\r]*[\n\r]")
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\n\r\f]+|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
    |(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<integer>0|[1-9][0-9]*[lL]?)
    |(?P<string>'(?:''|[^'])*')
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<mark><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE,
)


class SelectorError(PeerError):
    """An expression that cannot be understood, or asks for too much."""


class TokenKind(Enum):
    KEYWORD = "keyword"
    NAME = "name"
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    MARK = "mark"
    END = "end"


class Token(NamedTuple):
    """`text` is a string without its quotes, and a keyword in capitals. `at` is its place in the expression."""

    kind: TokenKind
    text: str
    at: int


def tokens_of(expression: str) -> list[Token]:
    """The tokens, with one that marks the end. Raises SelectorError."""
    if len(expression) > CHARACTERS_MAX:
        raise SelectorError(f"it has {len(expression)} characters; {CHARACTERS_MAX} are allowed")
    tokens: list[Token] = []
    at = 0
    last_line_end = max(expression.rfind("\n"), expression.rfind("\r"))
    while at < len(expression):
        # Behind the last end of a line there is none: each of 4,000 minus signs would look through all that follow.
        found = _LINE_COMMENT.match(expression, at) if at < last_line_end else None
        found = found or _TOKEN.match(expression, at)
        if found is None:
            raise SelectorError(f"what begins with {expression[at : at + 10]!r} at {at} is no token")
        if found.lastgroup not in (None, "space"):
            tokens.append(_token(str(found.lastgroup), found.group(), at))
        at = found.end()
    tokens.append(Token(TokenKind.END, "the end", at))
    return tokens


def _token(group: str, text: str, at: int) -> Token:
    if group == "word":
        word = text.upper()
        return Token(TokenKind.KEYWORD, word, at) if word in _KEYWORDS else Token(TokenKind.NAME, text, at)
    if group == "string":
        return Token(TokenKind.STRING, text[1:-1].replace("''", "'"), at)
    return Token(TokenKind(group), text, at)
