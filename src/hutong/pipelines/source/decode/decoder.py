"""From a fetched record set to Arrow batches: choose the batches, check them, unpack them, decode them.

Uncompressed batches are decoded in place, a whole run in one call; compressed ones are unpacked first. One Arrow
batch takes several runs, of several fetches too: its size, on which Spark's own cost per row depends, follows neither
the producers' batching nor what a broker sends at a time. Memory is bounded: what one batch may unpack to, and how much
is decoded before it is handed on.

Knows nothing of sockets or Spark.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.pipelines.native import Bytes, Int64s, bytes_of
from hutong.pipelines.source.decode.columns import Arena, Arenas, Assembler
from hutong.pipelines.source.decode.index import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    CONTROL,
    END,
    LAST_OFFSET,
    RECORD_BYTES_MIN,
    RECORD_COUNT,
    RECORDS_AT,
    WELL_FORMED,
    BatchIndex,
    check_crcs,
)
from hutong.pipelines.source.decode.records import PROBLEMS, RecordWindow, decode_batches
from hutong.pipelines.source.decode.transactions import drop_aborted
from hutong.pipelines.source.fetching import RecordSet
from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction
from hutong.wire.kafka.batch.compression import Compression, decompress

ARROW_BATCH_BYTES = 3 * 2**20
"""An Arrow batch is closed once it holds this much: Spark's cost per row falls up to here."""
LARGE_ROWS_BATCH_BYTES = 3 * 2**19
LARGE_ROW_BYTES = 512
"""Rows of this size on average are few even in a small batch, and a large one leaves the processor's caches."""
UNPACKED_BYTES_MAX = 512 * 2**20
"""The most that one compressed batch may unpack to; Arrow's binary columns end at 2 GiB."""
RECORDS_MAX = 2**24
"""The most records in one compressed batch: their columns take 30 bytes each, before keys and values."""


class Section(NamedTuple):
    """Batches with uncompressed records in `data`."""

    data: Bytes
    rows: Int64s
    byte_count: int


class Decoder:
    """Decodes the record sets of one partition into the columns `names`."""

    def __init__(self, topic: str, partition: int, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._where = f"{topic}-{partition}"
        self._assembler = Assembler(topic, partition, names)
        self._arenas = Arenas(names)

    def decode(
        self, records: memoryview, batches: BatchIndex, first: int, end: int, aborted: Sequence[AbortedTransaction] = ()
    ) -> Iterator[pa.RecordBatch]:
        """One record set: see `decode_all`."""
        return self.decode_all([RecordSet(records, batches, aborted)], first, end)

    def decode_all(self, record_sets: Iterable[RecordSet], first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records with `first <= offset < end`, without control records and those of aborted transactions.

        Every batch that is decoded has passed its CRC check. Raises ProtocolError naming the offset of a batch that is
        corrupt or malformed, or that unpacks to too much. What an earlier record set held is left out of a later one.
        A record set is done with when the next is requested.
        """
        window = RecordWindow(first, end, "key" in self._names, "value" in self._names, "headers" in self._names)
        arena: Arena | None = None
        for records, batches, aborted in record_sets:
            for section in self._sections(records, self._wanted(records, batches, window, aborted)):
                row_count = int(section.rows[:, RECORD_COUNT].sum())
                # A section is never split, so the batch ends before it.
                if arena is not None and not arena.has_room(row_count, section.byte_count):
                    yield from self._closed(arena)
                    arena = None
                if arena is None:
                    arena = self._arenas.empty(row_count, section.byte_count)
                arena.reserve(row_count, section.byte_count)
                problem, number = decode_batches(section.data, section.rows, window, arena.columns, arena.cursor)
                if problem != WELL_FORMED:
                    raise self._malformed(section.rows[number], PROBLEMS[problem])
                if _is_full(arena):
                    yield from self._closed(arena)
                    arena = None
            # A broker may send a batch again that the last fetch ended with.
            if batches.count:
                window = window._replace(first=max(window.first, batches.next_offset))
        if arena is not None:
            yield from self._closed(arena)

    def _wanted(
        self, records: memoryview, batches: BatchIndex, window: RecordWindow, aborted: Sequence[AbortedTransaction]
    ) -> Int64s:
        """The rows of the index whose records are to be decoded, all of them checked."""
        rows = drop_aborted(records, batches.rows, aborted)
        wanted: Int64s = rows[
            (rows[:, LAST_OFFSET] >= window.first)
            & (rows[:, BASE_OFFSET] < window.end)
            & (rows[:, ATTRIBUTES] & CONTROL == 0)
        ]
        check_crcs(records, wanted)
        return wanted

    def _closed(self, arena: Arena) -> Iterator[pa.RecordBatch]:
        """One Arrow batch, or none without a record in the window."""
        if arena.row_count:
            yield self._assembler.batch(arena)

    def _sections(self, records: memoryview, rows: Int64s) -> Iterator[Section]:
        """Run of uncompressed batches, and compressed batches one by one, in order."""
        data = bytes_of(records)
        compressed = np.flatnonzero(rows[:, ATTRIBUTES] & CODEC_MASK).tolist()
        start = 0
        for position in [*compressed, len(rows)]:
            # A run of uncompressed batches is decoded in one compiled call.
            if position > start:
                run = rows[start:position]
                yield Section(data, run, int(run[-1, END] - run[0, RECORDS_AT]))
            if position < len(rows):
                yield self._unpack(records, rows[position])
            start = position + 1

    def _unpack(self, records: memoryview, row: Int64s) -> Section:
        codec = int(row[ATTRIBUTES] & CODEC_MASK)
        if codec > max(Compression):
            raise self._malformed(row, f"its compression {codec} is not defined")
        # Before unpacking: the columns are allocated for the number in the header.
        if row[RECORD_COUNT] > RECORDS_MAX:
            raise self._malformed(row, f"it claims more than {RECORDS_MAX} records")
        try:
            unpacked = decompress(Compression(codec), records[row[RECORDS_AT] : row[END]], UNPACKED_BYTES_MAX)
        except LimitExceeded as error:
            raise self._malformed(row, f"it unpacks to more than {UNPACKED_BYTES_MAX} bytes") from error
        except ProtocolError as error:
            raise self._malformed(row, str(error)) from error
        # The count in the header is not proved by the CRC alone: anybody can write both.
        if row[RECORD_COUNT] > len(unpacked) // RECORD_BYTES_MIN:
            raise self._malformed(row, "it claims more records than it can hold")
        inside = row.copy()
        inside[RECORDS_AT], inside[END] = 0, len(unpacked)
        return Section(bytes_of(unpacked), inside[np.newaxis], len(unpacked))

    def _malformed(self, row: Int64s, problem: str) -> ProtocolError:
        return ProtocolError(f"the batch at offset {row[BASE_OFFSET]} of {self._where} is malformed: {problem}")


def _is_full(arena: Arena) -> bool:
    has_large_rows = arena.bytes_taken >= arena.rows_taken * LARGE_ROW_BYTES
    return arena.bytes_taken >= (LARGE_ROWS_BATCH_BYTES if has_large_rows else ARROW_BATCH_BYTES)
