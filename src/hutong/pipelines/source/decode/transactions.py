"""Finds the batches of a record set that belong to aborted transactions (KIP-98, read committed).

The broker lists the producers of aborted transactions in the set, with the first offset; each such transaction ends at
the producer's next abort marker, a control batch in the log, of one record that is not compressed.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from hutong.pipelines.native import Int64s
from hutong.pipelines.source.decode.index import (
    ATTRIBUTES,
    CODEC_MASK,
    CONTROL,
    END,
    LAST_OFFSET,
    POSITION,
    PRODUCER_ID,
    RECORD_COUNT,
    TRANSACTIONAL,
    check_crcs,
)
from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction
from hutong.wire.kafka.batch.records import iterate_records

ABORT_MARKER = b"\0\0\0\0"
"""A control record's key: version 0, type 0. Type 1 is a commit."""


def drop_aborted(records: memoryview, rows: Int64s, aborted: Sequence[AbortedTransaction]) -> Int64s:
    """The rows of `rows` (of a batch index over `records`) that do not belong to an aborted transaction.

    Raises ProtocolError for a marker that is corrupt: it decides what is seen.
    """
    if not aborted:
        return rows
    begins = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
    aborting: set[int] = set()
    kept = np.ones(len(rows), np.bool_)
    for number, row in enumerate(rows):
        while begins and begins[0].first_offset <= row[LAST_OFFSET]:
            aborting.add(begins.popleft().producer_id)
        producer_id = int(row[PRODUCER_ID])
        if row[ATTRIBUTES] & CONTROL:
            check_crcs(records, rows[number : number + 1])
            if _is_abort_marker(records, row):
                aborting.discard(producer_id)
        elif row[ATTRIBUTES] & TRANSACTIONAL and producer_id in aborting:
            kept[number] = False
    return rows[kept]


def _is_abort_marker(records: memoryview, row: Int64s) -> bool:
    if row[RECORD_COUNT] != 1 or row[ATTRIBUTES] & CODEC_MASK:
        return False
    return any(record.key == ABORT_MARKER for record in iterate_records(records[row[POSITION] : row[END]]))
