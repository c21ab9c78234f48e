"""A small durable map in the node's metadata: names to JSON values, under a prefix of its own.

Strategy: like the catalogue. A change is written as a record and applied when that is durable; replaying records at
start applies them by the same code. Who changes an entry a second time before the first change is durable builds on
`latest`, which is what the entry will be, so that neither is lost.

Knows nothing of what the entries mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog, WideStateLog

ENTRY_BYTES_MAX: Final = 64 * 1024
SLICE_ENTRIES: Final = 100  # of many small ones that are changed together: one append has so many at most


class DurableTable:
    """Entries that survive the node. `replay` first, then `start`, then `put`."""

    def __init__(self, prefix: str, entries_max: int) -> None:
        self._prefix = prefix.encode()
        self._entries_max = entries_max
        self._entries: dict[str, Any] = {}
        self._intended: dict[str, tuple[object, Any]] = {}  # what is on its way to the disk, the newest of each name
        self._state: StateLog | None = None
        self._wide_state: WideStateLog | None = None
        self.on_change: list[Callable[[str, Any], None]] = []  # called with (name, value or None) after each change

    @property
    def entries(self) -> Mapping[str, Any]:
        """Everything that is durable."""
        return self._entries

    def latest(self, name: str) -> Any:
        """The entry as it will be once all writes are durable; None if there is none."""
        intended = self._intended.get(name)
        return self._entries.get(name) if intended is None else intended[1]

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._state = state

    def start_wide(self, state: WideStateLog) -> None:
        """The same for a table that is to `put_all`."""
        self._state = self._wide_state = state

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log, if it is one of this table's."""
        if key.startswith(self._prefix):
            self._apply(key[len(self._prefix) :].decode(), None if value is None else json.loads(value))

    def put(self, name: str, value: Any, then: Continuation[None]) -> None:
        """Set an entry, or remove it where `value` is None; `then` is called once that is durable.

        Raises Refused(POLICY_VIOLATION) where the table or the entry is too large.
        """
        assert self._state is not None, "a table is changed before it was started"
        # Nothing to remove: a tombstone would only be garbage in the log.
        if value is None and self.latest(name) is None:
            then(None)
            return
        self._check_room({name: value})
        token = object()
        self._intended[name] = (token, value)

        def recorded(error: HutongError | None) -> None:
            self._settle(name, token, value, error)
            then(error)

        self._state.append(self._prefix + name.encode(), _encoded(value), recorded)

    def put_all(self, values: Mapping[str, Any], then: Continuation[None]) -> None:
        """Set, or remove, many small entries in few appends; `then` is called once all are durable.

        Entries that are as they shall be already are left out. Raises Refused(POLICY_VIOLATION) where they are too many
        or one is too large; then nothing is changed.
        """
        assert self._wide_state is not None, "a table is changed before it was started for it"
        changes = {name: value for name, value in values.items() if self._is_news(name, value)}
        self._check_room(changes)
        slices = list(_slices(changes.items()))
        open_slices, failed = len(slices), None

        def recorded(part: Mapping[str, tuple[object, Any]], error: HutongError | None) -> None:
            nonlocal open_slices, failed
            failed = failed or error
            for name, (token, value) in part.items():
                self._settle(name, token, value, error)
            open_slices -= 1
            # Slices become durable in order, but each reports by itself.
            if not open_slices:
                then(failed)

        if not slices:
            then(None)
        for part in slices:
            intended = {name: (object(), value) for name, value in part.items()}
            self._intended.update(intended)
            entries = [(self._prefix + name.encode(), _encoded(value)) for name, value in part.items()]
            self._wide_state.append_all(entries, partial(recorded, intended))

    def _is_news(self, name: str, value: Any) -> bool:
        return name in self._intended or value != self._entries.get(name)

    def _check_room(self, changes: Mapping[str, Any]) -> None:
        if any(len(name) + len(_encoded(value) or b"") > ENTRY_BYTES_MAX for name, value in changes.items()):
            raise Refused(ErrorCode.POLICY_VIOLATION, f"An entry takes at most {ENTRY_BYTES_MAX} bytes.")
        new = sum(value is not None and name not in self._entries for name, value in changes.items())
        # Entries that are being written count, so that requests at the same time do not pass the bound together.
        if new and self._count() + new > self._entries_max:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"This node keeps at most {self._entries_max} of these.")

    def _settle(self, name: str, token: object, value: Any, error: HutongError | None) -> None:
        """A change is on disk, or has failed."""
        # A later change of the same entry may be on its way; it stays the latest.
        if self._intended.get(name, (None, None))[0] is token:
            del self._intended[name]
        if error is None:
            self._apply(name, value)

    def _count(self) -> int:
        return len(self._entries) + sum(name not in self._entries for name in self._intended)

    def _apply(self, name: str, value: Any) -> None:
        if value is None:
            self._entries.pop(name, None)
        else:
            self._entries[name] = value
        for listener in self.on_change:
            listener(name, value)


def _encoded(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":")).encode()


def _slices(items: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    rest = iter(items)
    while part := dict(islice(rest, SLICE_ENTRIES)):
        yield part
