"""A table in memory for the memory of calls, which settles writes when a test says so."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from hutong.foundation.errors import HutongError
from hutong.foundation.machine_host import StateRecord
from hutong.foundation.waiting.pending import Continuation


class MemoryTable:
    """`rows` outlive it: give them to the next one, as a log outlives a process."""

    def __init__(self, rows: dict[bytes, bytes] | None = None, *, is_held: bool = False) -> None:
        self.rows = {} if rows is None else rows
        self.is_held = is_held
        self.failure: HutongError | None = None
        self.is_closed = False
        self.writes: deque[tuple[bytes, bytes | None, Continuation[None]]] = deque()

    async def open(self, apply: Callable[[bytes, bytes | None], None], /) -> None:
        for key, value in self.rows.items():
            apply(key, value)

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None], /) -> None:
        left, failure = len(records), None

        def settled(error: HutongError | None) -> None:
            nonlocal left, failure
            left -= 1
            failure = failure or error
            if not left:
                then(failure)

        for key, value in records:
            if self.failure is not None:
                asyncio.get_running_loop().call_soon(settled, self.failure)
                continue
            self.writes.append((key, value, settled))
            if not self.is_held:
                asyncio.get_running_loop().call_soon(self.settle)

    def settle(self, error: HutongError | None = None) -> None:
        """The oldest write."""
        key, value, settled = self.writes.popleft()
        if error is None and value is not None:
            self.rows[key] = value
        elif error is None:
            self.rows.pop(key, None)
        settled(error)

    async def close(self) -> None:
        self.is_closed = True
