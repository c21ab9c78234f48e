"""Values that a test and an embedded node exchange: topics, records, groups, and failed waits.

Knows nothing of requests. Imports nothing that costs time, because it is imported when tests are collected.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SHOWN_MAX: Final = 10  # of what a failure lists
SHOWN_CHARACTERS_MAX: Final = 80
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
GROUP_STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")

Text = str | bytes | None
Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


class WaitFailed(AssertionError):
    """A wait of a test that ended without success. The message says what was there instead."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be made. Raises ValueError for a name, a number or a setting that no broker takes."""

    name: str
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _LEGAL_NAME.fullmatch(self.name) or self.name in (".", ".."):
            raise ValueError(
                f"{self.name!r} is no name for a topic: 1 to 249 letters, digits, dots, underscores and hyphens are"
            )
        if not isinstance(self.partitions, int) or isinstance(self.partitions, bool) or self.partitions < 1:
            raise ValueError(
                f"topic {self.name} needs a whole number of partitions, 1 or more, not {self.partitions!r}"
            )
        if not isinstance(self.config, Mapping) or not all(isinstance(key, str) for key in self.config):
            raise ValueError(
                f'the config of topic {self.name} is a dict such as {{"retention.ms": "1000"}}, not {self.config!r}'
            )


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it is in the log. Header keys may repeat; their order is kept."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8; "" for a tombstone."""
        return (self.value or b"").decode()

    def json(self) -> Any:
        """The value as JSON."""
        return json.loads(self.value or b"null")

    def header(self, name: str) -> bytes | None:
        """The last value under this name, None where there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def __str__(self) -> str:
        key = "" if self.key is None else f" key={shortened(self.key)}"
        headers = "".join(f" {name}={shortened(value)}" for name, value in self.headers)
        return f"{self.topic}/{self.partition}@{self.offset}{key} value={shortened(self.value)}{headers}"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group, and the (topic, partition) pairs it was assigned."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group; one that nobody has joined is `Dead`, as Kafka says it."""

    name: str
    state: str
    members: tuple[Member, ...]

    def __str__(self) -> str:
        return f"{self.state} with {counted(len(self.members), 'member')}" + listed(
            f"{member.client_id or member.member_id}: "
            + (", ".join(f"{topic}/{partition}" for topic, partition in member.partitions) or "no partition")
            for member in self.members
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """A group's position in one partition. `committed` is None where it has committed nothing."""

    partition: int
    start: int
    end: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Records that are there and not committed yet."""
        return max(0, self.end - max(self.start, self.committed or 0))

    def __str__(self) -> str:
        at = "nothing committed" if self.committed is None else f"committed {self.committed}"
        return f"partition {self.partition}: {at}, {self.start} to {self.end} are there"


def check_state(state: str) -> None:
    """Raises ValueError unless a group may be in it."""
    if state not in GROUP_STATES:
        nearest = difflib.get_close_matches(state, GROUP_STATES, 1, 0)[0]
        raise ValueError(f"{state} is no state of a group; did you mean {nearest}? There are {', '.join(GROUP_STATES)}")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(things: Iterable[object]) -> str:
    """One line each, the first ones of many; the empty text for none."""
    lines = [str(thing) for thing in things]
    more = f"\n  ... and {len(lines) - SHOWN_MAX} more" if len(lines) > SHOWN_MAX else ""
    return "".join(f"\n  {line}" for line in lines[:SHOWN_MAX]) + more


def shortened(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARACTERS_MAX else shown[: SHOWN_CHARACTERS_MAX - 3] + "..."


def as_bytes(text: Text) -> bytes | None:
    """Text as UTF-8. Raises TypeError for anything that is neither text nor bytes."""
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"a key, value or header is text, bytes or None, not {type(text).__name__}: encode it first")


def header_pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, as_bytes(value)) for name, value in pairs]
