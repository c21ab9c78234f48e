"""JSON: checked as a whole, then indented token by token, so that numbers and repeated names stay as they are written.

Knows nothing of other forms.
"""

import re
from typing import Final

import msgspec

from hutong.console.limits import VALUE_BYTES_MAX
from hutong.console.records.decoding.rendering import INDENTED_LEVELS_MAX
from hutong.console.records.decoding.shown import OtherForm

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_EMPTY: Final = {"{": "}", "[": "]"}


def check_json(data: bytes) -> str:
    """The text of a JSON document. Raises OtherForm."""
    if len(data) > VALUE_BYTES_MAX:
        raise OtherForm(f"it is longer than the {VALUE_BYTES_MAX >> 20} MiB that are looked at as JSON")
    try:
        msgspec.json.decode(data)
        return data.decode()
    except RecursionError:
        raise OtherForm("it is nested too deep to be shown as JSON") from None
    # msgspec looks at no more of a string than at its escapes.
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OtherForm(f"it is no JSON: {error}") from None


def indent_json(text: str, chars_max: int) -> tuple[str, bool]:
    """The document on lines, at most `chars_max` characters of it, and True where that is all."""
    parts: list[str] = []
    left, depth, before = chars_max, 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "}]":
            depth -= 1
            part = token if _EMPTY.get(before) == token else _line(depth) + token
        else:
            part = _line(depth) + token if before in ("{", "[", ",") else token
        if token == ":":
            part = ": "
        elif token in "{[":
            depth += 1
        if len(part) > left:
            parts.append(part[:left])
            return "".join(parts), False
        left -= len(part)
        parts.append(part)
        before = token
    return "".join(parts), True


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, INDENTED_LEVELS_MAX)
