"""TOML of users, within bounds: `tomllib` itself takes quadratic time for a key of many parts, and nests without end.

Measured: 64 kB of `a.a.a…=1` take it 13 s, and four times as much 16 times as long. Nested arrays and tables end in a
RecursionError. Knows nothing of pipelines.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

FILE_BYTES_MAX = 2**20
KEY_PARTS_MAX = 100
TOKENS = re.compile(
    r"""
    \"{3} (?: [^"\\] | \\. | "(?!"") )* \"{3}   # texts, in which dots mean nothing
    | '{3} (?: [^'] | '(?!'') )* '{3}
    | "(?: [^"\\\n] | \\. )* "
    | '[^'\n]*'
    | \#[^\n]*
    | (?P<dot> \. )
    | (?P<end> [\n=,\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)


def read_toml(file: Path) -> dict[str, Any]:
    """Parse a file. Raises ValueError (as `tomllib` does) for invalid TOML or too much of it, OSError."""
    with file.open("rb") as opened:
        content = opened.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it is larger than {FILE_BYTES_MAX} bytes")
    return parse_toml(content.decode())


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    dots = 0
    for found in TOKENS.finditer(text):
        if found["dot"]:
            dots += 1
        elif found["end"]:
            dots = 0
        if dots >= KEY_PARTS_MAX:
            raise ValueError(f"a key has more than {KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
