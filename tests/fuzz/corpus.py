"""Inputs worth keeping: what fuzzing has found, as a line of hexadecimal each in `corpus/TARGET.txt`.

Strategy: text, so that a change of it can be read; every run of the tests tries them all. A line may begin with a word
that says what it once did, and a colon.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("corpus")


def kept(name: str) -> list[bytes]:
    """The inputs kept for a target."""
    path = FOLDER / f"{name}.txt"
    if not path.exists():
        return []
    return [bytes.fromhex(line.rpartition(":")[2]) for line in path.read_text().splitlines() if line.strip()]


def keep(name: str, inputs: dict[bytes, str]) -> int:
    """Add inputs, each with its word; returns how many were new."""
    present = set(kept(name))
    new = [(data, word) for data, word in inputs.items() if data not in present]
    if new:
        FOLDER.mkdir(exist_ok=True)
        with (FOLDER / f"{name}.txt").open("a") as file:
            file.writelines(f"{word}: {data.hex()}\n" for data, word in new)
    return len(new)
