"""The messages of an answer from what a fetch has found, many batches by one call.

Strategy: a client that sends one message at a time fills the log with batches of a few records each, and a look at each
batch costs more than its messages. So one call of the compiled pass goes through all that is plain: not compressed, no
marker, of at most PLAIN_BYTES_MAX, each record of the usual kind. It stops in front of a batch that is not. That one
goes the way of `converted`, and so do all where a filter looks at each message, a transaction was aborted, or nothing
is compiled.
"""

from collections.abc import Callable, Sequence
from typing import Final

from hutong.broker.rocketmq.records.collected import Collected
from hutong.broker.rocketmq.records.converted import ConvertedBatches
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm
from hutong.broker.rocketmq.records.stored_runs import compiled_batches
from hutong.broker.rocketmq.records.visible import visible_batches
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.batch.records import BatchHeader, iterate_batches

PLAIN_BYTES_MAX: Final = 64 * 1024
"""Of a batch that is walked from its start by each pull. A larger one is kept, once it was turned into messages."""

stored_batches: Final = compiled_batches
Takes = Callable[[StoredForm], bool]


class Collecting:
    """The messages of one answer, from an offset of a queue on. `takes` is the filter; None takes all."""

    __slots__ = ("_converted", "_from_offset", "_queue", "_takes", "found")

    def __init__(
        self, found: Collected, queue: QueueOfForms, converted: ConvertedBatches, takes: Takes | None = None
    ) -> None:
        self.found = found
        self._from_offset = found.next_offset
        self._queue = queue
        self._converted = converted
        self._takes = takes

    def collect(self, data: PartitionData) -> None:
        """Take messages until there are enough, or no more. Raises ProtocolError, LimitExceeded, UsageError."""
        # Python would do the same work again for each group: there the way with the kept batches is better.
        if stored_batches is not None and self._takes is None and not data.aborted_transactions:
            self._collect_plain(data.records or ())
            return
        for header, batch in visible_batches(data):
            self._take_batch(header, batch)
            if self.found.is_full:
                return

    def _collect_plain(self, records: Sequence[Buffer | int]) -> None:
        pieces = [*records]
        at, position = 0, 0
        while True:
            at, position = self._take_plain(pieces, at, position)
            if self.found.is_full or at == len(pieces):
                return
            piece = pieces[at]
            assert not isinstance(piece, int), "records are a list of views"
            # It is whole: the pass leaves out what is cut off.
            header, batch = next(iterate_batches(memoryview(piece)[position:]))
            self._take_batch(header, None if header.is_control else batch)
            if self.found.is_full:
                return
            position += header.size

    def _take_plain(self, pieces: list[Buffer | int], at: int, position: int) -> tuple[int, int]:
        """Take what is plain from a batch on. Returns where it ends: another batch, or the end of all."""
        found, queue = self.found, self._queue
        assert stored_batches is not None, "it is compiled"
        stored, count, next_offset, walked_bytes, at, position = stored_batches(
            pieces,
            queue.topic_bytes,
            queue.host_bytes,
            at,
            position,
            found.next_offset,
            queue.queue_id,
            queue.physical_base,
            self._from_offset,
            *found.room,
            PLAIN_BYTES_MAX,
        )
        found.read_bytes += walked_bytes
        # Nothing but empty batches, or none that is plain.
        if count:
            found.add(stored, count, len(stored))
        found.next_offset = next_offset
        return at, position

    def _take_batch(self, header: BatchHeader, batch: Buffer | None) -> None:
        """Take the messages of one batch, which are none where there is no batch for readers."""
        found, taken = self.found, self.found.count
        if batch is not None:
            for part in self._converted.of(header, batch, self._queue).begin_at(self._from_offset, *found.room):
                if self._takes is None:
                    found.take(part)
                else:
                    found.take_some(part, self._takes)
                if found.is_full:
                    found.read_bytes += self._share(header, found.count - taken)
                    return
        found.read_bytes += self._share(header, found.count - taken)
        # A marker, what an aborted transaction has left, or the cleaner at the end of a batch.
        found.pass_over(header.last_offset)

    def _share(self, header: BatchHeader, taken: int) -> int:
        """The bytes of a batch that `taken` of its messages have cost: a large one is pulled in parts."""
        # A filter has looked at the others, and the next pull is to find as much as it needs.
        return header.size if self._takes is not None else header.size * taken // max(1, header.record_count)
