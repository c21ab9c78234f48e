"""Inputs made from good ones: the plain engine, for where atheris is not, and for every run of the tests.

Strategy: byte-wise mutations that formats with lengths are sensitive to (numbers at their bounds, cuts, repeated and
exchanged pieces, pieces of other seeds), a few on top of each other; seeded, so what fails once fails again.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from tests.fuzz.target import INPUT_BYTES_MAX

NUMBERS: Final = [
    number.to_bytes(width, order, signed=True)
    for width in (1, 2, 4, 8)
    for number in (0, 1, -1, 2, 127, -128, (1 << 8 * width - 1) - 1, -(1 << 8 * width - 1), 1 << 8 * width - 2)
    if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1
    for order in ("big", "little")
]
WORDS: Final = [
    b'"',
    b"\\",
    b"{",
    b"[",
    b"}",
    b"\r\n",
    b"\0",
    b",",
    b"=",
    b"-",
    b":",
    b"\xff" * 9,
    b"\xed\xa0\x80",
    b"e999",
]
STEPS_MAX: Final = 4


def mutations(seeds: Sequence[bytes], count: int, random: Random) -> Iterator[bytes]:
    """So many inputs, each a mutated seed."""
    for _ in range(count):
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, STEPS_MAX)):
            _mutate(data, seeds, random)
        yield bytes(data[:INPUT_BYTES_MAX])


def _mutate(data: bytearray, seeds: Sequence[bytes], random: Random) -> None:
    at = random.randrange(len(data) + 1)
    match random.randrange(9):
        case 0 if data:
            data[at - 1] ^= 1 << random.randrange(8)
        case 1 if data:
            data[at - 1] = random.randrange(256)
        case 2:
            del data[at:]
        case 3:
            del data[at : at + random.randint(1, 8)]
        case 4:
            data[at:at] = random.randbytes(random.randint(1, 8))
        case 5:
            number = random.choice(NUMBERS)
            data[at : at + len(number)] = number
        case 6:
            piece = data[at : at + random.randint(1, 32)]
            data[at:at] = piece * random.randint(1, 40)
        case 7:
            other = random.choice(seeds)
            start = random.randrange(len(other) + 1)
            data[at : at + random.randint(0, 16)] = other[start : start + random.randint(1, 64)]
        case _:
            data[at:at] = random.choice(WORDS)
