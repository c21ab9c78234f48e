"""A partition log as the ground under a state topic.

Strategy: appends wait for ALL, since state that is acknowledged must survive; reads happen once, at start, from a
journal that has just been recovered, so they may simply be awaited one by one.

Where other nodes have the log, too, a follower reads what is committed, as it is committed.

An append that fails for want of space is still in the journal's cache and is written once there is space. So its
failure is reported, and so is the log's high watermark if it passes the record all the same. One that fails for want of
replicas may be committed later as well, and the log would take more behind it: what is decided then, by a state without
it, could contradict it. So nothing is taken until it is committed, or another node leads.

Knows nothing of keys and values.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation, settle_future
from hutong.journal.append.qos import Qos
from hutong.journal.read.reader import DiskRead
from hutong.wire.kafka.batch.records import parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog

READ_BYTES: Final = 64 * 1024  # applied in one turn of the loop: 15 ms of offsets


class LogStorage:
    """Implements `FollowedStorage` over one log."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._uncertain: deque[tuple[int, Callable[[], None]]] = deque()  # base offset, callback; in order
        self._doubt: Refused | None = None  # of appends, while replicas lack what is uncertain

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def append(self, batch: bytes, then: Continuation[None], late: Callable[[], None] | None = None) -> None:
        base_offset = self._log.end_offset
        if self._doubt is not None:
            then(self._doubt)
            return

        def ended(error: HutongError | None) -> None:
            is_in_the_stream = self._log.end_offset > base_offset
            if error is not None and is_in_the_stream and late is not None:
                if not self._uncertain:
                    self._log.watch(self._advanced)
                self._uncertain.append((base_offset, late))
                # In a shortage the journal refuses by itself.
                if isinstance(error, Refused) and error.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                    self._doubt = Refused(ErrorCode.NOT_ENOUGH_REPLICAS, "An earlier change is on too few replicas.")
            then(error)

        outcome = self._log.append([(memoryview(batch), parse_batch_header(batch))], Qos.ALL)
        if isinstance(outcome, HutongError):
            ended(outcome)
        else:
            self._log.when_safe(Qos.ALL, ended)

    def _advanced(self) -> None:
        while self._uncertain and self._uncertain[0][0] < self._log.high_watermark:
            self._uncertain.popleft()[1]()
        if not self._uncertain:
            self._doubt = None
            self._log.unwatch(self._advanced)

    @property
    def committed_offset(self) -> int:
        return self._log.high_watermark

    def watch(self, callback: Callable[[], None]) -> None:
        self._log.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._log.unwatch(callback)

    def read_committed(self, offset: int, then: Continuation[Sequence[memoryview]]) -> None:
        found = self._log.read(offset, READ_BYTES)
        if isinstance(found, DiskRead):
            self._log.read_from_disk(found, then)
        else:
            then(found.buffers)

    async def read(self, offset: int) -> Sequence[memoryview]:
        found = self._log.read(offset, READ_BYTES)
        if not isinstance(found, DiskRead):
            # A node that runs already goes on meanwhile.
            await asyncio.sleep(0)
            return found.buffers
        future: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()
        self._log.read_from_disk(found, partial(settle_future, future))
        return await future

    def trim_before(self, offset: int) -> None:
        self._log.delete_before(offset)
