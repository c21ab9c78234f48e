"""Schemas that a schema imports, and that those import, found in a registry.

Strategy: depth first, each place once, those first that others need. A topic that was taken over may have cycles and
long chains, so both have bounds.
"""

from typing import Final

from hutong.foundation.errors import Refused
from hutong.registry import names
from hutong.registry.checks import ResolvedText
from hutong.registry.formats.shape import NamedText
from hutong.registry.machine import RegistryMachine
from hutong.registry.values import SchemaText, invalid_schema

IMPORTS_MAX: Final = 256
IMPORTED_CHARACTERS_MAX: Final = 4 * 1024 * 1024


def resolved(machine: RegistryMachine, text: SchemaText, context: str) -> ResolvedText:
    """The schema with all that it imports. Raises Refused for a reference to nothing, a cycle, or too many."""
    found: dict[tuple[str, int], NamedText] = {}
    _collect(machine, text, context, found, ())
    return ResolvedText(text, tuple(found.values()))


def _collect(
    machine: RegistryMachine,
    text: SchemaText,
    context: str,
    found: dict[tuple[str, int], NamedText],
    above: tuple[tuple[str, int], ...],
) -> None:
    for reference in text.references:
        place = names.qualified(reference.subject, context), reference.version
        if place in above or len(above) >= IMPORTS_MAX:
            raise invalid_schema(f"its references come back to {place[0]} version {place[1]}")
        if place in found:
            continue
        number = None if reference.version == -1 else reference.version
        try:
            version = machine.version(place[0], number, with_deleted=True)
        except Refused:
            raise invalid_schema(f"it refers to subject {place[0]} version {place[1]}, which is not there") from None
        _collect(machine, version.text, names.split(place[0])[0], found, (*above, place))
        found[place] = NamedText(reference.name, version.text.schema)
        if len(found) > IMPORTS_MAX or sum(len(each.text) for each in found.values()) > IMPORTED_CHARACTERS_MAX:
            raise invalid_schema(f"it imports more than {IMPORTS_MAX} schemas, or {IMPORTED_CHARACTERS_MAX} characters")
