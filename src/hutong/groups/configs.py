"""Settings of single groups (KIP-848, KIP-932): what each may set, what it has set, and what holds for it.

Strategy: a change is checked, written to the catalogue's log, and holds from the moment it is durable. A group need not
exist to have settings. What it did not set it has from the node. Each kind of group brings the keys it knows.

Knows nothing of requests, nor of what a setting does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

CONFIGURED_GROUPS_MAX: Final = 10_000
_KEY: Final = b"group-config/"
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    """One setting. `default` is what the node has; numbers have bounds, texts have choices or a `check` of their own.

    `check` returns what is wrong with a value, or an empty string. The names of the bounds are for people.
    """

    name: str
    default: str
    documentation: str
    is_number: bool = True
    minimum: int = 1
    minimum_name: str = ""
    maximum: int = _INT32_MAX
    maximum_name: str = ""
    choices: tuple[str, ...] = ()
    check: Callable[[str], str] | None = None

    @property
    def is_boolean(self) -> bool:
        return self.choices == ("true", "false")

    def problem(self, value: str) -> str:
        """Describe the error of a value in a sentence; empty for a valid one."""
        if self.is_number:
            return self._problem_of_number(value)
        if self.choices and value not in self.choices:
            return f"Invalid value {value[:100]} for configuration {self.name}: it must be one of {self.choices}"
        return self.check(value) if self.check is not None else ""

    def _problem_of_number(self, value: str) -> str:
        try:
            number = int(value)
        except ValueError:
            return f"Invalid value {value[:100]} for configuration {self.name}: Not a number of type INT"
        if number < self.minimum:
            return f"{self.name} must be greater than or equal to {self.minimum_name or self.minimum}"
        if number > self.maximum:
            return f"{self.name} must be less than or equal to {self.maximum_name or self.maximum}"
        return ""


def bounded_number(name: str, default: int, bounds: tuple[int, int], documentation: str) -> GroupConfigKey:
    """A number whose bounds are settings of the node: those of `share.x` are `group.share.min.x` and `.max.x`."""
    kind, _, bound = name.partition(".")
    return GroupConfigKey(
        name,
        str(default),
        documentation,
        minimum=bounds[0],
        minimum_name=f"group.{kind}.min.{bound}",
        maximum=bounds[1],
        maximum_name=f"group.{kind}.max.{bound}",
    )


class GroupConfigLog(Protocol):
    """The internal topic of the catalogue, which the records are written to."""

    def append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        """Append; `then` is called with None once durable, or with the error."""
        ...


class GroupConfigs:
    """The settings of every group that has any of its own.

    `greater` are pairs of names: the first must be the greater number.
    """

    def __init__(self, keys: Iterable[GroupConfigKey], greater: Iterable[tuple[str, str]] = ()) -> None:
        self.keys: Mapping[str, GroupConfigKey] = {key.name: key for key in keys}
        self.on_change: list[Callable[[str], None]] = []  # called with the group's id
        self._greater = tuple(greater)
        self._overrides: dict[str, dict[str, str]] = {}
        self._intended: dict[str, dict[str, str]] = {}  # on their way to the disk, the newest of each group
        self._state: GroupConfigLog | None = None

    def __iter__(self) -> Iterator[str]:
        """The groups that have settings of their own."""
        return iter(self._overrides)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the catalogue's log, if it is one of ours."""
        if not key.startswith(_KEY):
            return
        group_id = key[len(_KEY) :].decode()
        if value is None:
            self._overrides.pop(group_id, None)
        else:
            self._overrides[group_id] = json.loads(value)
        for listener in self.on_change:
            listener(group_id)

    def start(self, state: GroupConfigLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._state = state

    def of(self, group_id: str) -> Mapping[str, str]:
        """The settings of a group's own."""
        return self._overrides.get(group_id, {})

    def latest(self, group_id: str) -> Mapping[str, str]:
        """The settings of a group's own once all changes under way are durable: where the next change begins."""
        return self._intended.get(group_id, self.of(group_id))

    def value(self, group_id: str, name: str) -> str:
        """The effective settings of a group."""
        return self.of(group_id).get(name, self.keys[name].default)

    def number(self, group_id: str, name: str) -> int:
        return int(self.value(group_id, name))

    def check(self, overrides: Mapping[str, str | None]) -> dict[str, str]:
        """The settings as they would be kept. Raises Refused(INVALID_CONFIG)."""
        checked: dict[str, str] = {}
        for name, value in overrides.items():
            key = self.keys.get(name)
            if key is None:
                raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name[:100]}")
            if value is None:
                raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for {name}")
            problem = key.problem(value)
            if problem:
                raise Refused(ErrorCode.INVALID_CONFIG, problem)
            checked[name] = value
        for greater, less in self._greater:
            numbers = [int(checked.get(name, self.keys[name].default)) for name in (greater, less)]
            # Only if the request sets one of the two: defaults that do not fit each other are not the caller's fault.
            if (greater in checked or less in checked) and numbers[0] <= numbers[1]:
                raise Refused(ErrorCode.INVALID_CONFIG, f"{greater} must be greater than {less}")
        return checked

    def alter(self, group_id: str, overrides: Mapping[str, str | None], then: Continuation[None]) -> None:
        """Replace a group's settings; `then` is called once that is durable. Raises Refused."""
        checked = self.check(overrides)
        if not group_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        # A group need not exist to have settings, so their number has a bound of its own.
        is_new = group_id not in self._overrides and group_id not in self._intended
        if is_new and len(self._overrides.keys() | self._intended.keys()) >= CONFIGURED_GROUPS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"At most {CONFIGURED_GROUPS_MAX} groups have settings here.")
        assert self._state is not None, "a group's settings are changed before they were replayed"
        key = _KEY + group_id.encode()
        value = json.dumps(checked, separators=(",", ":")).encode() if checked else None

        self._intended[group_id] = checked

        def altered(error: HutongError | None) -> None:
            # A later change may be on its way: it stays the newest.
            if self._intended.get(group_id) is checked:
                del self._intended[group_id]
            if error is None:
                self.replay(key, value)
            then(error)

        self._state.append(key, value, altered)
