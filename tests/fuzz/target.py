"""What a fuzz target is, and what must hold for every input: only the errors it names get out, in bounded memory.

Strategy: a target turns bytes into whatever a room makes of them. Where a checksum stands before what is to be tested,
`reseal` makes it hold again, so both sides of it are reached. Knows no engine: mutation and atheris both call `check`.
"""

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import ProtocolError

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE
INPUT_BYTES_MAX: Final = 64 * KIBIBYTE


@dataclass(frozen=True)
class Target:
    """One decoder. `errors` are all that it may raise; memory stays below `memory_base + memory_factor * len(data)`."""

    name: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    errors: tuple[type[BaseException], ...] = (ProtocolError,)
    reseal: Callable[[bytes], bytes] | None = None
    memory_base: int = 2 * MEBIBYTE
    memory_factor: int = 400
    slowness: int = 1  # how many fewer inputs the tests try


class TooMuchMemory(AssertionError):
    """An input made its decoder take more memory than the target allows."""


def check(target: Target, data: bytes, *, with_memory: bool = False) -> None:
    """Raises whatever the target does not name, and TooMuchMemory."""
    _check(target, data, with_memory)
    if target.reseal is not None:
        resealed = target.reseal(data)
        if resealed != data:
            _check(target, resealed, with_memory)


def _check(target: Target, data: bytes, with_memory: bool) -> None:
    if not with_memory:
        _run(target, data)
        return
    tracemalloc.start()
    try:
        _run(target, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > target.memory_base + target.memory_factor * len(data):
        raise TooMuchMemory(f"{target.name}: {peak} bytes of memory for an input of {len(data)}")


def _run(target: Target, data: bytes) -> None:
    try:
        target.decode(data)
    except target.errors:
        return
