"""Values of a selector, and how RocketMQ compares them (`ComparisonExpression`).

    property     text; it becomes what it is compared with: a number, or true and false
    integer      of 32 bits, or of 64 where it does not fit
    fraction     a double
    true, false
    nothing      None: the property is missing, or the answer is unknown

RocketMQ takes no message whose evaluation fails, whatever else the expression says. `Incomparable` is that failure.
"""

import re
from math import copysign
from typing import Final, TypeAlias

from hutong.foundation.errors import PeerError

Value: TypeAlias = str | int | float | bool | None
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 1_000  # longer text is no number: a property may have 32 KiB
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
# As `Double.valueOf`, after it has trimmed the text.
_DOUBLE: Final = re.compile(
    r"([+-]?(?:NaN|Infinity))|([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
)
_HEX_DOUBLE: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_TRIMMED: Final = "".join(map(chr, range(0x21)))


class Incomparable(PeerError):
    """Two values that cannot be compared: the message is not taken."""


def compared(left: Value, right: Value) -> int:
    """Below, at or above zero, as `left` is to `right`. Neither is None. Raises Incomparable."""
    kind, other = type(left), type(right)
    if kind is not other:
        if kind is str:
            left = _converted(str(left), right)
        elif other is str:
            # Java's code casts the wrong side here, and fails.
            if kind is bool:
                raise Incomparable("true or false, compared with text")
            right = _converted(str(right), left)
        elif bool in (kind, other):
            return -1
    if type(left) is float or type(right) is float:
        return _compared_doubles(_as_double(left), _as_double(right))
    return (left > right) - (left < right)  # type: ignore[operator]


def double_of(text: str) -> float:
    """The number in a text. Raises Incomparable."""
    if len(text) <= NUMBER_CHARACTERS_MAX:
        text = text.strip(_TRIMMED)
        found = _DOUBLE.fullmatch(text)
        if found is not None:
            return float(found.group(1) or found.group(2))
        found = _HEX_DOUBLE.fullmatch(text)
        if found is not None:
            return _hex_double(found.group(1))
    raise Incomparable("text that is no number")


def integer_of(text: str, highest: int) -> int:
    """The integer in a text, from `-highest - 1` to `highest`. Raises Incomparable."""
    if len(text) <= NUMBER_CHARACTERS_MAX and _INTEGER.fullmatch(text):
        number = int(text)
        if -highest - 1 <= number <= highest:
            return number
    raise Incomparable("text that is no integer")


def _converted(text: str, like: Value) -> Value:
    """The text as a value of the other side's kind."""
    if type(like) is bool:
        return text.lower() == "true"
    if type(like) is float:
        return double_of(text)
    assert type(like) is int, "text is compared with text elsewhere"
    # A literal that fits 32 bits is an Integer in Java, and then the text must fit them, too.
    return integer_of(text, INT_MAX if abs(like) <= INT_MAX else LONG_MAX)


def _as_double(value: Value) -> float:
    assert isinstance(value, int | float), "the other side is a number"
    return float(value)


def _compared_doubles(left: float, right: float) -> int:
    """As `Double.compareTo`: NaN is above all and equal to itself, and 0.0 above -0.0."""
    if left != left or right != right:
        return (left != left) - (right != right)
    if left == right == 0.0:
        return (copysign(1, left) > copysign(1, right)) - (copysign(1, left) < copysign(1, right))
    return (left > right) - (left < right)


def _hex_double(text: str) -> float:
    try:
        return float.fromhex(text)
    # Java makes it infinite.
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")
