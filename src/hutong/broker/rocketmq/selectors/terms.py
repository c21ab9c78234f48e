"""Terms of a selector: each is compiled to a function from a message's properties to a value.

Answers are true, false or unknown (None), as in SQL. As RocketMQ has it: `=` of a value and nothing is false, of
nothing and a value unknown, of nothing and nothing true. CONTAINS and its like are false for nothing, with NOT, too.

A term knows what it may be part of, and how deep it is: that bounds the stack of an evaluation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Final, TypeAlias

from hutong.broker.rocketmq.selectors.tokens import SelectorError
from hutong.broker.rocketmq.selectors.values import Value, compared, double_of

Evaluate: TypeAlias = Callable[[Mapping[str, str]], Value]
DEPTH_MAX: Final = 50
_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_SEARCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression. `constant` is the value of a literal."""

    evaluate: Evaluate
    is_answer: bool = False  # it is true, false or unknown
    is_property: bool = False
    is_literal: bool = False
    constant: Value = None
    depth: int = 1


def literal(value: Value) -> Term:
    is_answer = value is None or type(value) is bool
    return Term(lambda _properties: value, is_answer=is_answer, is_literal=True, constant=value)


def property_named(name: str) -> Term:
    return Term(lambda properties: properties.get(name), is_property=True)


def as_answer(term: Term) -> Term:
    """The term where true or false is needed. Raises SelectorError."""
    if term.is_answer:
        return term
    # Properties are text, and RocketMQ casts none of it: not even the text "true" is true.
    if term.is_property:
        return _made(lambda properties: None if term.evaluate(properties) is None else False, term)
    raise SelectorError("a value is where true or false is needed")


def negated(term: Term) -> Term:
    def evaluate(properties: Mapping[str, str]) -> Value:
        value = term.evaluate(properties)
        return -value if type(value) in (int, float) else None  # type: ignore[operator]

    return _made(evaluate, term, is_answer=False)


def inverted(term: Term) -> Term:
    """NOT. Raises SelectorError."""
    answer = as_answer(term)

    def evaluate(properties: Mapping[str, str]) -> Value:
        value = answer.evaluate(properties)
        return None if value is None else not value

    return _made(evaluate, answer)


def any_of(terms: Sequence[Term]) -> Term:
    """OR. Raises SelectorError."""
    return _joined(terms, decisive=True)


def all_of(terms: Sequence[Term]) -> Term:
    """AND. Raises SelectorError."""
    return _joined(terms, decisive=False)


def equal(left: Term, right: Term) -> Term:
    """`=`. Raises SelectorError."""
    for term in (left, right):
        if term.is_literal and term.constant is None:
            raise SelectorError("NULL cannot be compared: IS NULL asks for it")
    both_literal = left.is_literal and right.is_literal
    if both_literal and left.is_answer and not right.is_answer:
        raise SelectorError("true or false cannot be compared with another value")
    first, second = left.evaluate, right.evaluate

    def evaluate(properties: Mapping[str, str]) -> Value:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return other is not None and compared(one, other) == 0

    return _made(evaluate, left, right)


def is_null(term: Term) -> Term:
    return _made(lambda properties: term.evaluate(properties) is None, term)


def ordered(left: Term, mark: str, right: Term) -> Term:
    """`>`, `>=`, `<` or `<=`. Raises SelectorError."""
    for term in (left, right):
        if term.is_answer or type(term.constant) is str:
            raise SelectorError(f"only numbers and properties can be compared by {mark}")
    first, second, holds = left.evaluate, right.evaluate, _ORDERS[mark]

    def evaluate(properties: Mapping[str, str]) -> Value:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        if other is None:
            return None
        # Text has no order: both must be numbers.
        if type(one) is str and type(other) is str:
            one, other = double_of(one), double_of(other)
        return holds(compared(one, other), 0)

    return _made(evaluate, left, right)


def between(value: Term, low: Term, high: Term) -> Term:
    """BETWEEN. Raises SelectorError."""
    if low.is_literal and high.is_literal:
        if low.constant is None or high.constant is None:
            raise SelectorError("BETWEEN takes no NULL")
        # Text and answers are refused below.
        numbers = type(low.constant) in (int, float) and type(high.constant) in (int, float)
        if numbers and compared(high.constant, low.constant) < 0:
            raise SelectorError("the first value of BETWEEN is above the second")
    return all_of([ordered(value, ">=", low), ordered(value, "<=", high)])


def not_between(value: Term, low: Term, high: Term) -> Term:
    """NOT BETWEEN. Raises SelectorError."""
    return any_of([ordered(value, "<", low), ordered(value, ">", high)])


def is_in(term: Term, texts: Sequence[str], *, is_not: bool) -> Term:
    """IN, or NOT IN. Raises SelectorError."""
    if not term.is_property:
        raise SelectorError("IN needs a property")
    known = frozenset(texts)

    def evaluate(properties: Mapping[str, str]) -> Value:
        value = term.evaluate(properties)
        return None if value is None else (value in known) is not is_not

    return _made(evaluate, term)


def searched(term: Term, keyword: str, text: str, *, is_not: bool) -> Term:
    """CONTAINS, STARTSWITH or ENDSWITH, or NOT one of them."""
    has = _SEARCHES[keyword]
    # An empty text is in nothing, whatever the term would be.
    if not text:
        return _made(lambda _properties: False, term)

    def evaluate(properties: Mapping[str, str]) -> Value:
        value = term.evaluate(properties)
        return type(value) is str and has(value, text) is not is_not

    return _made(evaluate, term)


def _joined(terms: Sequence[Term], *, decisive: bool) -> Term:
    answers = [as_answer(term) for term in terms]
    parts = [answer.evaluate for answer in answers]

    def evaluate(properties: Mapping[str, str]) -> Value:
        answer: Value = not decisive
        for part in parts:
            value = part(properties)
            if value is decisive:
                return decisive
            if value is None:
                answer = None
        return answer

    return _made(evaluate, *answers)


def _made(evaluate: Evaluate, *parts: Term, is_answer: bool = True) -> Term:
    """A term of others. Raises SelectorError where it is too deep."""
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_MAX:
        raise SelectorError(f"it is nested more than {DEPTH_MAX} deep")
    return Term(evaluate, is_answer=is_answer, depth=depth)
