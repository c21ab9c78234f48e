"""The difference between two versions of a schema, line by line.

Strategy: schemas are indented first, so that their layout makes no difference. Long ones are cut: comparing takes the
square of their lines.

Knows no registry.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any, Final

from hutong.console.records.decoding.json_form import check_json, indent_json
from hutong.console.records.decoding.shown import OtherForm

SCHEMA_CHARS_MAX: Final = 256 * 1024
"""Of a schema that is shown."""
LINES_MAX: Final = 2_000
"""Of each schema that is compared."""
PROTOBUF: Final = "PROTOBUF"


def formatted(schema: str, kind: str) -> tuple[str, bool]:
    """The schema for people, and True where that is all of it. Protobuf stays as it is, JSON is indented."""
    if kind != PROTOBUF:
        try:
            return indent_json(check_json(schema.encode()), SCHEMA_CHARS_MAX)
        # Some other registry may have left a text that is no JSON, or one that is too deep.
        except OtherForm:
            pass
    return schema[:SCHEMA_CHARS_MAX], len(schema) <= SCHEMA_CHARS_MAX


def difference(before: str, after: str) -> dict[str, Any]:
    """Each line with `same`, `removed` or `added`; `is_cut` where there were more lines than are compared."""
    old, new = before.splitlines(), after.splitlines()
    is_cut = max(len(old), len(new)) > LINES_MAX
    old, new = old[:LINES_MAX], new[:LINES_MAX]
    lines: list[tuple[str, str]] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            lines += [("same", line) for line in old[old_from:old_to]]
            continue
        lines += [("removed", line) for line in old[old_from:old_to]]
        lines += [("added", line) for line in new[new_from:new_to]]
    changed = sum(kind != "same" for kind, _ in lines)
    return {"lines": [{"kind": kind, "text": text} for kind, text in lines], "changed": changed, "is_cut": is_cut}
