"""Random selectors in SQL92 and properties, of which most make sense together."""

from random import Random
from typing import Final

NAMES: Final = ("a", "b", "c", "_d$1", "missing")
NUMBERS: Final = (
    "0",
    "1",
    "5",
    "10",
    "10L",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "1.5",
    "10.0",
    ".5",
    "1e3",
    "5.",
)
STRINGS: Final = ("'1'", "'abc'", "''", "'it''s'", "'true'", "'10'", "'ü'")
CONSTANTS: Final = ("TRUE", "false", "NULL")
VALUES: Final = (
    "", "1", "5", "10", "+7", "-3", "1.5", " 2 ", "10d", "1e1", "abc", "it's", "true", "TRUE", "false", "ü", "NaN",
    "-0.0", "0.0", "Infinity", "0x1p3", "0x.8p1f", "1.", ".5", "1_0", "2147483648", "-2147483648",
    "9223372036854775808", "1e400", "nan", "NaNd",
)  # fmt: skip


def properties(random: Random) -> dict[str, str]:
    return {name: random.choice(VALUES) for name in NAMES[:-1] if random.random() < 0.8}


def selector_text(random: Random, depth: int = 3) -> str:
    """An expression that is nearly always one of the grammar's; what it compares may be refused."""
    if depth <= 0:
        return _predicate(random, depth)
    match random.randrange(8):
        case 0 | 1:
            return (
                f"{selector_text(random, depth - 1)} {random.choice(('AND', 'and'))} {selector_text(random, depth - 1)}"
            )
        case 2 | 3:
            return f"{selector_text(random, depth - 1)} OR {selector_text(random, depth - 1)}"
        case 4:
            return f"NOT ({selector_text(random, depth - 1)})"
        case 5:
            return f"({selector_text(random, depth - 1)})"
        case _:
            return _predicate(random, depth)


def damaged(random: Random, text: str) -> str:
    """The same with a piece left out, doubled, or replaced."""
    begin = random.randrange(len(text))
    end = min(len(text), begin + random.randint(0, 6))
    return (
        text[:begin]
        + random.choice(("", " ", "'", "(", ")", "NOT ", "-", "1", " = ", text[begin:end] * 2))
        + text[end:]
    )


def _predicate(random: Random, depth: int) -> str:
    left = _operand(random, depth)
    negation = random.choice(("", "", "NOT "))
    match random.randrange(9):
        case 0 | 1:
            return f"{left} {random.choice(('=', '<>'))} {_operand(random, depth)}"
        case 2 | 3:
            return f"{left}{random.choice(('>', '>=', '<', '<='))}{_operand(random, depth)}"
        case 4:
            return f"{left} {negation}BETWEEN {_operand(random, depth)} AND {_operand(random, depth)}"
        case 5:
            return f"{left} {negation}IN ({', '.join(random.choices(STRINGS, k=random.randint(1, 6)))})"
        case 6:
            return f"{left} {negation}{random.choice(('CONTAINS', 'startswith', 'ENDSWITH'))} {random.choice(STRINGS)}"
        case 7:
            return f"{left} IS {negation}NULL"
        case _:
            return left


def _operand(random: Random, depth: int) -> str:
    match random.randrange(12):
        case 0 | 1 | 2 | 3 | 4:
            return random.choice(NAMES)
        case 5 | 6 | 7:
            return random.choice(NUMBERS)
        case 8:
            return random.choice(STRINGS)
        case 9:
            return random.choice(CONSTANTS)
        case 10:
            return f"{random.choice(('-', '+', '- ', 'NOT '))}{_operand(random, depth)}"
        case _:
            return f"({selector_text(random, depth - 2)})" if depth > 0 else f"({random.choice(NAMES)}) /* * */"
