"""Masks: parts of keys, values and headers that the console shows to nobody, as card numbers.

Strategy: bytes are masked where they are read, before anything decodes, searches or cuts them. So no form shows what
another hides, and a search cannot find it. Each byte becomes a `*`: lengths stay, and with them the framing of Avro,
Protobuf and MessagePack. RE2's time grows with the value, and no expression makes it worse.

Masks are no right: a user who may read a topic reads it with any other client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.console.records.seen import SeenRecord

MASKS_MAX: Final = 100
EXPRESSION_CHARS_MAX: Final = 1_000
_MEMORY_BYTES_MAX: Final = 1 << 20


class Masks:
    """Rules `TOPICS=EXPRESSION`: a topic's name, in which `*` is any text, and an expression of RE2.

    Raises UsageError for a rule that is none.
    """

    def __init__(self, rules: Sequence[str] = ()) -> None:
        if len(rules) > MASKS_MAX:
            raise UsageError(f"console.masks has more than {MASKS_MAX} rules.", ExitCode.CONFIG)
        self._rules = [_parsed(rule) for rule in rules]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def masked(self, record: SeenRecord) -> SeenRecord:
        """The record as it may be shown."""
        regexes = [regex for topics, regex in self._rules if fnmatchcase(record.topic, topics)]
        if not regexes:
            return record
        key, value = _masked(record.key, regexes), _masked(record.value, regexes)
        headers = [(name, _masked(content, regexes)) for name, content in record.headers]
        if key == record.key and value == record.value and headers == [*record.headers]:
            return record
        return replace(record, key=key, value=value, headers=headers, is_masked=True)


NO_MASKS: Final = Masks()


def _parsed(rule: str) -> tuple[str, Any]:
    topics, equals, expression = rule.partition("=")
    if not equals or not topics or not expression or len(expression) > EXPRESSION_CHARS_MAX:
        raise UsageError(
            f"console.masks has {rule[:100]!r}; write TOPICS=EXPRESSION, as 'payments*=[0-9]{{13,19}}'.",
            ExitCode.CONFIG,
        )
    import re2  # few consoles have masks, and every start would pay for it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    try:
        return topics, re2.compile(expression.encode(), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise UsageError(
            f"console.masks: {expression[:100]!r} is no regular expression of RE2: {told[:200]}.", ExitCode.CONFIG
        ) from None


def _masked(data: bytes | None, regexes: Iterable[Any]) -> bytes | None:
    if data is None:
        return None
    for regex in regexes:
        data = regex.sub(lambda found: b"*" * (found.end() - found.start()), data)
    return data
