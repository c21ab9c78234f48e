"""A small durable map in the node's metadata: names to JSON values, under a prefix of its own.

Strategy: like the catalogue. A change is written as a record and applied when that is durable; replaying records at
start applies them by the same code. Who changes an entry a second time before the first change is durable builds on
`latest`, which is what the entry will be, so that neither is lost.

Knows nothing of what the entries mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics import StateLog

ENTRY_BYTES_MAX: Final = 64 * 1024


class DurableTable:
    """Entries that survive the node. `replay` first, then `start`, then `put`."""

    def __init__(self, prefix: str, entries_max: int) -> None:
        self._prefix = prefix.encode()
        self._entries_max = entries_max
        self._entries: dict[str, Any] = {}
        self._intended: dict[str, tuple[object, Any]] = {}  # what is on its way to the disk, the newest of each name
        self._state: StateLog | None = None
        self.on_change: list[Callable[[str, Any], None]] = []  # called with (name, value or None) after each change

    @property
    def entries(self) -> Mapping[str, Any]:
        """Everything that is durable."""
        return self._entries

    def latest(self, name: str) -> Any:
        """What the entry will be once all is durable; None where there is none."""
        intended = self._intended.get(name)
        return self._entries.get(name) if intended is None else intended[1]

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._state = state

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log, if it is one of this table's."""
        if key.startswith(self._prefix):
            self._apply(key[len(self._prefix) :].decode(), None if value is None else json.loads(value))

    def put(self, name: str, value: Any, then: Callable[[HutongError | None], None]) -> None:
        """Set an entry, or remove it where `value` is None; `then` is called once that is durable.

        Raises Refused(POLICY_VIOLATION) where the table or the entry is too large.
        """
        assert self._state is not None, "a table is changed before it was started"
        if value is None and self.latest(name) is None:
            then(None)
            return
        encoded = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        if len(encoded or b"") + len(name) > ENTRY_BYTES_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"An entry takes at most {ENTRY_BYTES_MAX} bytes.")
        if value is not None and name not in self._entries and self._count() >= self._entries_max:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"This node keeps at most {self._entries_max} of these.")
        token = object()
        self._intended[name] = (token, value)

        def recorded(error: HutongError | None) -> None:
            if self._intended.get(name, (None, None))[0] is token:
                del self._intended[name]
            if error is None:
                self._apply(name, value)
            then(error)

        self._state.append(self._prefix + name.encode(), encoded, recorded)

    def _count(self) -> int:
        return len(self._entries) + sum(name not in self._entries for name in self._intended)

    def _apply(self, name: str, value: Any) -> None:
        if value is None:
            self._entries.pop(name, None)
        else:
            self._entries[name] = value
        for listener in self.on_change:
            listener(name, value)
