"""The known name that is most like a wrong one, as a part of a sentence."""

import difflib
from collections.abc import Iterable
from typing import Final

LIKENESS_MIN: Final = 0.6  # of two names, from 0 to 1: difflib's own bound
KNOWN_MAX: Final = 10_000  # names that are compared: each costs microseconds, and a cluster may have very many


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?` for the nearest of the first `KNOWN_MAX` names, or nothing."""
    folded = {name.lower(): name for name, _ in zip(known, range(KNOWN_MAX), strict=False)}
    found = difflib.get_close_matches(given.lower(), folded, 1, LIKENESS_MIN)
    return f"; did you mean {folded[found[0]]}?" if found else ""
