"""Records of the topic `_schemas` on their way into a machine.

Strategy: batches come in order, of this node's log or of another node's; what was applied already is skipped. A record
that is none of a registry is logged and left out: a client that may write to the topic may write anything. Aborted
transactions are left out, too.

Knows no topics and no other nodes.
"""

import logging
from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import decode_record
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

_log: Final = logging.getLogger("hutong.registry")


class SchemaReplay:
    """A machine, and how far in the log it is: `next_offset`, behind a batch of `last_epoch`."""

    def __init__(self) -> None:
        self.machine = RegistryMachine()
        self.next_offset = 0
        self.last_epoch = -1
        self.is_whole = False  # once it had all that was committed at some moment

    def apply(self, buffers: Iterable[Buffer], aborted: Iterable[tuple[int, int]]) -> None:
        """Apply the batches that are new. `aborted` has producer and first offset of each aborted transaction there."""
        starts = deque(sorted(aborted, key=itemgetter(1)))
        in_aborted: set[int] = set()
        for buffer in buffers:
            for header, batch in iterate_batches(memoryview(buffer)):
                if header.last_offset < self.next_offset:
                    continue
                while starts and starts[0][1] <= header.base_offset:
                    in_aborted.add(starts.popleft()[0])
                # A marker ends its producer's transaction.
                if header.is_control:
                    in_aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in in_aborted):
                    self._apply_batch(batch)
                self.next_offset, self.last_epoch = header.last_offset + 1, header.leader_epoch

    def _apply_batch(self, batch: memoryview) -> None:
        try:
            records = [*iterate_records(batch)]
        except (ProtocolError, LimitExceeded, UsageError) as error:
            _log.error("a batch of schemas cannot be read, and is left out: %s", error)
            return
        for record in records:
            try:
                change = decode_record(record.key or b"", record.value)
            except ProtocolError as error:
                _log.error("the record of schemas at offset %d is left out: %s", record.offset, error)
                continue
            if change is not None:
                self.machine.apply(change)
