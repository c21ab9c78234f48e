"""Values of a schema registry: schemas, their versions under subjects, references, levels and modes.

Knows no bytes and no HTTP.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from hutong.foundation.errors import Refused

VERSION_MAX: Final = 2**31 - 1
ID_MAX: Final = 2**31 - 1
SUBJECT_CHARACTERS_MAX: Final = 1_024


class Compatibility(Enum):
    """Levels: which schemas of a subject read the data of which others."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"  # the new one reads what the last one wrote
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"  # what all of them wrote
    FORWARD = "FORWARD"  # the last one reads what the new one writes
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"  # both
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(Enum):
    """Permission of a subject to change."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"  # of all subjects, whatever their own modes are
    IMPORT = "IMPORT"  # the client brings ids and versions from another registry


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """The name by which a schema imports another one, and the place of that."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as it was registered. Two that are equal have one id.

    `extra` is what clients add (metadata and rules), as canonical JSON, empty where there is nothing.
    """

    schema_type: str
    schema: str
    references: tuple[SchemaReference, ...] = ()
    extra: str = ""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject. `is_deleted`: softly, so that it is still found by its id."""

    subject: str
    version: int
    id: int
    text: SchemaText
    is_deleted: bool = False


class RegistryCode:
    """Error codes of Confluent's API; the first three digits are the HTTP status."""

    INCOMPATIBLE: Final = 409
    FORBIDDEN: Final = 40301
    SUBJECT_NOT_FOUND: Final = 40401
    VERSION_NOT_FOUND: Final = 40402
    SCHEMA_NOT_FOUND: Final = 40403
    SUBJECT_SOFT_DELETED: Final = 40404
    SUBJECT_NOT_SOFT_DELETED: Final = 40405
    VERSION_SOFT_DELETED: Final = 40406
    VERSION_NOT_SOFT_DELETED: Final = 40407
    NO_SUBJECT_LEVEL: Final = 40408
    NO_SUBJECT_MODE: Final = 40409
    INVALID_SCHEMA: Final = 42201
    INVALID_VERSION: Final = 42202
    INVALID_LEVEL: Final = 42203
    INVALID_MODE: Final = 42204
    NOT_PERMITTED: Final = 42205
    REFERENCE_EXISTS: Final = 42206
    INVALID_SUBJECT: Final = 42208
    STORE: Final = 50001
    TIMED_OUT: Final = 50002
    FORWARDING: Final = 50003


class NotRecorded(Refused):
    """Raised for a change of which nothing is in the topic: this node does not write now, or others wrote meanwhile."""

    def __init__(self, message: str) -> None:
        super().__init__(RegistryCode.FORWARDING, message)


class UnknownOutcome(Refused):
    """Raised for a change that may be in the topic, or come there: its writer was lost, or the disk is late."""

    def __init__(self, message: str) -> None:
        super().__init__(RegistryCode.TIMED_OUT, message)


def invalid_schema(why: str) -> Refused:
    return Refused(RegistryCode.INVALID_SCHEMA, f"Invalid schema: {why}")


def version_of(text: str) -> int | None:
    """The version that a path names; None for the latest. Raises Refused."""
    if text in ("latest", "-1"):
        return None
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= VERSION_MAX:
        return int(text)
    raise Refused(
        RegistryCode.INVALID_VERSION,
        f"The specified version '{text[:50]}' is not a valid version id. Allowed values are between [1, 2^31-1] "
        'and the string "latest"',
    )


def level_of(text: str) -> Compatibility:
    """Raises Refused."""
    try:
        return Compatibility(text.upper())
    except ValueError:
        levels = ", ".join(level.value for level in Compatibility)
        raise Refused(RegistryCode.INVALID_LEVEL, f"Invalid compatibility level. Valid values are {levels}") from None


def mode_of(text: str) -> Mode:
    """Raises Refused."""
    try:
        return Mode(text.upper())
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise Refused(RegistryCode.INVALID_MODE, f"Invalid mode. Valid values are {modes}") from None
