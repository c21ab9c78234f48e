"""A key or a value as it is shown: its text, its form, and the reason for that form.

Knows no form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hutong.foundation.errors import PeerError


class OtherForm(PeerError):
    """Bytes that are not of a form, with the reason as a sentence."""


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """A schema by which a value was written. `type` is the registry's word: AVRO, JSON or PROTOBUF."""

    id: int
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """`text` has at most as many characters as were asked for; `is_whole`: nothing was left out.

    `size_bytes` is that of the key or value itself, -1 for one that is missing.
    """

    form: str
    why: str
    text: str
    size_bytes: int
    is_whole: bool = True
    notes: tuple[str, ...] = ()
    schema: SchemaFacts | None = None


class ValueSchema(Protocol):
    """A schema that reads what was written by it."""

    @property
    def type(self) -> str: ...

    @property
    def name(self) -> str:
        """The name of the record or message, empty where it has none."""
        ...

    def read(self, payload: bytes) -> Any:
        """The value, of types that JSON has and bytes. Raises PeerError for one that this schema did not write."""
        ...


SchemaOf = Callable[[int], ValueSchema | None]
"""The schema of an id, None for one that is not known. It may block."""
