"""From a certificate's subject to a user's name, by rules as Kafka has them (ssl.principal.mapping.rules, KIP-371).

Strategy: rules are tried in their order, the first whose pattern matches the whole subject names the user. Patterns are
RE2's, which take linear time on every input.

Knows nothing of certificates.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from hutong.foundation.errors import ExitCode, UsageError

RULES_MAX: Final = 100
PATTERN_MEMORY_BYTES_MAX: Final = 1024 * 1024
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)")
_GROUP: Final = re.compile(r"\$(\d)")

Rule = Callable[[str], str | None]
"""The name for a subject, None where the rule says nothing of it."""


class PrincipalMapping:
    """Raises UsageError for rules that are not written as they should be."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = _parsed(rules)

    def name_of(self, subject: str) -> str | None:
        """None where no rule matches: then nobody is to be let in by this certificate."""
        return next((name for name in (rule(subject) for rule in self._rules) if name is not None), None)


def _parsed(text: str) -> list[Rule]:
    rules: list[Rule] = []
    rest = text.strip()
    while rest:
        found = _RULE.match(rest)
        if found is None or len(rules) >= RULES_MAX:
            raise _wrong(f"ssl.principal.mapping.rules: {rest[:200]!r} is not RULE:pattern/replacement/[LU] or DEFAULT")
        default, pattern, replacement, case = found.groups()
        rules.append(_whole if default else _rule(pattern, replacement, case))
        rest = rest[found.end() :]
    return rules or [_whole]


def _whole(subject: str) -> str | None:
    return subject


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    compiled = _compiled(pattern)
    groups = compiled.groups
    asked = max((int(number) for number in _GROUP.findall(replacement)), default=0)
    if asked > groups:
        raise _wrong(f"ssl.principal.mapping.rules: {replacement!r} asks for group {asked} of {pattern!r}")

    def apply(subject: str) -> str | None:
        found = compiled.fullmatch(subject)
        if found is None:
            return None
        name = _GROUP.sub(lambda group: found.group(int(group[1])) or "", replacement)
        return _folded(name, case) if case else name

    return apply


def _folded(name: str, case: str) -> str | None:
    """In one case. None where a letter beyond ASCII would become an ASCII one, and so the name of somebody else.

    The Kelvin sign becomes k, the long s becomes S: a certificate for one such name would be good for the other.
    """
    fold = str.lower if case == "L" else str.upper
    if any(not letter.isascii() and any(part.isascii() for part in fold(letter)) for letter in name):
        return None
    return fold(name)


def _compiled(pattern: str) -> Any:
    import re2  # few nodes have rules, and every start would pay for it

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise _wrong(f"ssl.principal.mapping.rules: {pattern[:200]!r}: {reason}") from None


def _wrong(sentence: str) -> UsageError:
    return UsageError(f"{sentence}.", ExitCode.CONFIG)
