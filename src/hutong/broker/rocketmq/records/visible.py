"""The records that a fetch has found, as a committed reader sees them."""

from collections.abc import Callable, Iterator

from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.batch.records import BatchHeader, Record, iterate_batches, iterate_records


def visible(
    data: PartitionData, from_offset: int, is_wanted: Callable[[BatchHeader, memoryview], bool] | None = None
) -> Iterator[tuple[Record | None, int]]:
    """The records from an offset on, each with the offset behind it; None for a batch that shows none.

    A batch that `is_wanted` declines shows none.
    """
    for header, batch in visible_batches(data):
        if batch is not None and (is_wanted is None or is_wanted(header, batch)):
            for record in iterate_records(batch):
                # A fetch begins with the batch that has the offset.
                if record.offset >= from_offset:
                    yield record, record.offset + 1
        # Compaction may have removed the batch's last records.
        if header.last_offset >= from_offset:
            yield None, header.last_offset + 1


def visible_batches(data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """The batches that a fetch has found; None in place of a marker, and of one that was aborted."""
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    open_aborted: set[int] = set()
    for piece in data.records or ():
        # A fetch answers with views, each of whole batches.
        assert not isinstance(piece, int), "records are a list of views"
        for header, batch in iterate_batches(memoryview(piece)):
            # KIP-98: a transaction is open from its first offset to its marker, and its producer has one at a time.
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborted.add(aborted.pop(0)[1])
            is_aborted = header.is_transactional and header.producer_id in open_aborted
            if header.is_control:
                open_aborted.discard(header.producer_id)
            yield header, None if header.is_control or is_aborted else batch
