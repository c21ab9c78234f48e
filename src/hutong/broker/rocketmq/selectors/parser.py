"""The parser of selectors: RocketMQ's grammar, which is that of ActiveMQ without arithmetic and LIKE.

    or          and { OR and }
    and         equality { AND equality }
    equality    comparison { = comparison | <> comparison | IS [NOT] NULL }
    comparison  unary { > >= < <= unary | [NOT] BETWEEN unary AND unary | [NOT] IN ( string, ... )
                      | [NOT] CONTAINS | STARTSWITH | ENDSWITH string }
    unary       + unary | - unary | NOT unary | primary
    primary     string | number | TRUE | FALSE | NULL | property | ( or )

So NOT binds closer than `=`: `NOT a = 'x'` compares `NOT a`. One difference: RocketMQ ignores what follows a whole
expression, here it is refused.

Strategy: recursive descent, bounded in depth and in terms. Each term is compiled as soon as it is read.
"""

from collections.abc import Callable, Mapping
from typing import Final

from hutong.broker.rocketmq.selectors import terms
from hutong.broker.rocketmq.selectors.terms import DEPTH_MAX, Term
from hutong.broker.rocketmq.selectors.tokens import SelectorError, Token, TokenKind, tokens_of
from hutong.broker.rocketmq.selectors.values import LONG_MAX, Incomparable, integer_of

TERMS_MAX: Final = 500  # literals and properties; each costs a microsecond for each message
FLOAT_CHARACTERS_MAX: Final = 100
_SEARCHES: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


def selector(expression: str) -> Callable[[Mapping[str, str]], bool]:
    """The function that tells by its properties whether a message is wanted. Raises SelectorError."""
    evaluate = _Parser(tokens_of(expression)).whole().evaluate

    def takes(properties: Mapping[str, str]) -> bool:
        try:
            return evaluate(properties) is True
        # As `ExpressionMessageFilter`: what cannot be compared is not wanted.
        except Incomparable:
            return False

    return takes


class _Parser:
    """One expression. Each method reads a part of it, and raises SelectorError."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._terms = 0

    def whole(self) -> Term:
        term = terms.as_answer(self._either())
        if self._next.kind is not TokenKind.END:
            raise SelectorError(f"after the end of the expression there is {self._next.text[:20]!r} at {self._next.at}")
        return term

    # ---- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _has(self, *texts: str) -> bool:
        """True if these keywords and marks come next; they are taken then."""
        for offset, text in enumerate(texts):
            token = self._tokens[min(self._at + offset, len(self._tokens) - 1)]
            if token.text != text or token.kind not in (TokenKind.KEYWORD, TokenKind.MARK):
                return False
        self._at += len(texts)
        return True

    def _expect(self, text: str) -> None:
        if not self._has(text):
            raise SelectorError(f"{text} is expected at {self._next.at}, not {self._next.text[:20]!r}")

    def _string(self) -> str:
        if self._next.kind is not TokenKind.STRING:
            raise SelectorError(f"a string is expected at {self._next.at}, not {self._next.text[:20]!r}")
        self._count_term()
        return self._take().text

    # ---- grammar

    def _either(self) -> Term:
        parts = [self._both()]
        while self._has("OR"):
            parts.append(self._both())
        return terms.any_of(parts) if len(parts) > 1 else parts[0]

    def _both(self) -> Term:
        parts = [self._equality()]
        while self._has("AND"):
            parts.append(self._equality())
        return terms.all_of(parts) if len(parts) > 1 else parts[0]

    def _equality(self) -> Term:
        left = self._comparison()
        while True:
            if self._has("="):
                left = terms.equal(left, self._comparison())
            elif self._has("<>"):
                left = terms.inverted(terms.equal(left, self._comparison()))
            elif self._has("IS", "NULL"):
                left = terms.is_null(left)
            elif self._has("IS", "NOT", "NULL"):
                left = terms.inverted(terms.is_null(left))
            else:
                return left

    def _comparison(self) -> Term:
        left = self._unary()
        while (found := self._compared(left)) is not None:
            left = found
        return left

    def _compared(self, left: Term) -> Term | None:
        """One comparison of `left`; None where none follows."""
        for mark in (">", ">=", "<", "<="):
            if self._has(mark):
                return terms.ordered(left, mark, self._unary())
        for words, is_not in (((), False), (("NOT",), True)):
            if self._has(*words, "BETWEEN"):
                low = self._unary()
                self._expect("AND")
                high = self._unary()
                return terms.not_between(left, low, high) if is_not else terms.between(left, low, high)
            if self._has(*words, "IN"):
                return terms.is_in(left, self._strings(), is_not=is_not)
            for keyword in _SEARCHES:
                if self._has(*words, keyword):
                    return terms.searched(left, keyword, self._string(), is_not=is_not)
        return None

    def _strings(self) -> list[str]:
        self._expect("(")
        texts = [self._string()]
        while self._has(","):
            texts.append(self._string())
        self._expect(")")
        return texts

    def _unary(self) -> Term:
        self._depth += 1
        # Counted on the way down, too: signs and brackets make no term of their own.
        if self._depth > DEPTH_MAX:
            raise SelectorError(f"it is nested more than {DEPTH_MAX} deep")
        if self._has("+"):
            term = self._unary()
        elif self._has("-"):
            term = terms.negated(self._unary())
        elif self._has("NOT"):
            term = terms.inverted(self._unary())
        else:
            term = self._primary()
        self._depth -= 1
        return term

    def _primary(self) -> Term:
        if self._has("("):
            term = self._either()
            self._expect(")")
            return term
        self._count_term()
        token = self._take()
        match token.kind:
            case TokenKind.NAME:
                return terms.property_named(token.text)
            case TokenKind.STRING:
                return terms.literal(token.text)
            case TokenKind.INTEGER:
                return terms.literal(_integer(token.text))
            case TokenKind.FLOAT:
                return terms.literal(_float(token.text))
            case TokenKind.KEYWORD if token.text in _CONSTANTS:
                return terms.literal(_CONSTANTS[token.text])
            case _:
                raise SelectorError(f"a value is expected at {token.at}, not {token.text[:20]!r}")

    def _count_term(self) -> None:
        self._terms += 1
        if self._terms > TERMS_MAX:
            raise SelectorError(f"it has more than {TERMS_MAX} values and properties")


def _integer(text: str) -> int:
    try:
        return integer_of(text.rstrip("lL"), LONG_MAX)
    except Incomparable:
        raise SelectorError(f"{text[:30]} does not fit 64 bits") from None


def _float(text: str) -> float:
    if len(text) > FLOAT_CHARACTERS_MAX:
        raise SelectorError(f"a number of {len(text)} characters; {FLOAT_CHARACTERS_MAX} are allowed")
    number = float(text)
    # As RocketMQ: not even zero, which is 0 without a point.
    if number == 0 or number == float("inf"):
        raise SelectorError(f"{text} is no fraction that fits 64 bits")
    return number
