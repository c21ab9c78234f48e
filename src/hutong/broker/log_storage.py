"""A partition log as the ground under a state topic.

Strategy: appends wait for ALL, since state that is acknowledged must survive; reads happen once, at start, from a
journal that has just been recovered, so they may simply be awaited one by one.

Knows nothing of keys and values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError
from hutong.journal.qos import Qos
from hutong.journal.reader import ColdRead
from hutong.wire.kafka.records import parse_batch_header

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog
    from hutong.journal.writer import Appended

READ_BYTES: Final = 1024 * 1024


class LogStorage:
    """Implements `StateStorage` over one log."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def append(self, batch: bytes, then: Callable[[HutongError | None], None]) -> None:
        def appended(outcome: Appended | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else None)

        self._log.append(memoryview(batch), parse_batch_header(batch), Qos.ALL, appended)

    async def read(self, offset: int) -> Sequence[memoryview]:
        found = self._log.read(offset, READ_BYTES)
        if not isinstance(found, ColdRead):
            return found.buffers
        future: asyncio.Future[Sequence[memoryview]] = asyncio.get_running_loop().create_future()

        def settle(outcome: list[memoryview] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self._log.read_cold(found, settle)
        return await future

    def trim_before(self, offset: int) -> None:
        self._log.delete_before(offset)
