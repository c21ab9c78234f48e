"""The address in a URL that somebody wrote in the place of one.

Knows nothing of what listens there.
"""

import re
from typing import Final

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+._-]*://)(?:[^/@\s]*@)?([^/?#\s]*)")


def without_scheme(text: str) -> tuple[str, str] | None:
    """`http://` and `HOST:PORT` of a text that begins as a URL does; None for any other text."""
    found = _URL.match(text.strip())
    return None if found is None else (found[1], found[2])


def scheme_advice(text: str) -> str:
    """`, without http://: HOST:PORT` for a URL, else nothing: the end of a sentence about a wrong address."""
    parts = without_scheme(text)
    return "" if parts is None else f", without {parts[0]}: {parts[1] or 'HOST:PORT'}"
