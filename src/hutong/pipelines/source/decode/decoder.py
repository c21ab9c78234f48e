"""From a fetched record set to Arrow batches: choose the batches, check them, unpack them, decode them.

Uncompressed batches are decoded where they lie, a whole run in one call. Compressed ones are unpacked first, and
several share one Arrow batch, so that the size of Arrow batches does not follow the producers' batching. Memory is
bounded: what one batch may unpack to, and how much is unpacked before it is handed on.

Knows nothing of sockets or Spark.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.native import Bytes, Int64s, bytes_of
from hutong.pipelines.source.decode.columns import Arena, Assembler
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
from hutong.pipelines.source.decode.records import PROBLEMS, Window, decode_batches
from hutong.pipelines.source.decode.transactions import drop_aborted
from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction
from hutong.wire.kafka.compression import Compression, decompress

ARROW_BATCH_BYTES = 8 * 2**20
"""An Arrow batch made of compressed batches is closed once it holds this much."""
UNPACKED_BYTES_MAX = 512 * 2**20
"""The most that one compressed batch may unpack to; Arrow's binary columns end at 2 GiB."""


class Section(NamedTuple):
    """Batches whose records lie uncompressed in `data`."""

    data: Bytes
    rows: Int64s
    byte_count: int


class Decoder:
    """Decodes the record sets of one partition into the columns `names`."""

    def __init__(self, topic: str, partition: int, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._where = f"{topic}-{partition}"
        self._assembler = Assembler(topic, partition, names)

    def decode(
        self, records: memoryview, batches: BatchIndex, first: int, end: int, aborted: Sequence[AbortedTransaction] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The records with `first <= offset < end`, without control records and those of `aborted` transactions.

        Every batch that is decoded has passed its CRC check. Raises ProtocolError naming the offset of a batch that is
        corrupt or malformed, LimitExceeded for one that unpacks to more than `UNPACKED_BYTES_MAX`.
        """
        rows = drop_aborted(records, batches.rows, aborted)
        rows = rows[
            (rows[:, LAST_OFFSET] >= first) & (rows[:, BASE_OFFSET] < end) & (rows[:, ATTRIBUTES] & CONTROL == 0)
        ]
        check_crcs(records, rows)
        window = Window(first, end, "key" in self._names, "value" in self._names, "headers" in self._names)
        group: list[Section] = []
        for section in self._sections(records, rows):
            group.append(section)
            if sum(one.byte_count for one in group) >= ARROW_BATCH_BYTES:
                yield from self._decode_group(group, window)
                group = []
        if group:
            yield from self._decode_group(group, window)

    def _sections(self, records: memoryview, rows: Int64s) -> Iterator[Section]:
        """Runs of uncompressed batches, and compressed batches one by one, in order."""
        data = bytes_of(records)
        compressed = np.flatnonzero(rows[:, ATTRIBUTES] & CODEC_MASK).tolist()
        start = 0
        for position in [*compressed, len(rows)]:
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
        unpacked = decompress(Compression(codec), records[row[RECORDS_AT] : row[END]], UNPACKED_BYTES_MAX)
        if row[RECORD_COUNT] > len(unpacked) // RECORD_BYTES_MIN:
            raise self._malformed(row, "it claims more records than it can hold")
        inside = row.copy()
        inside[RECORDS_AT], inside[END] = 0, len(unpacked)
        return Section(bytes_of(unpacked), inside[np.newaxis], len(unpacked))

    def _decode_group(self, group: Sequence[Section], window: Window) -> Iterator[pa.RecordBatch]:
        """One Arrow batch, or none when no record lies in the window."""
        row_count = sum(int(section.rows[:, RECORD_COUNT].sum()) for section in group)
        arena = Arena(row_count, sum(section.byte_count for section in group), self._names)
        for section in group:
            problem, number = decode_batches(section.data, section.rows, window, arena.columns, arena.cursor)
            if problem != WELL_FORMED:
                raise self._malformed(section.rows[number], PROBLEMS[problem])
        if arena.row_count:
            yield self._assembler.batch(arena)

    def _malformed(self, row: Int64s, problem: str) -> ProtocolError:
        return ProtocolError(f"the batch at offset {row[BASE_OFFSET]} of {self._where} is malformed: {problem}")
