"""The filter of compaction: it decides which records of a batch stay, and rewrites the batch.

Strategy: Kafka's rules. A record stays if no later one of its key was noted. A tombstone stays until its delete
horizon, which its first cleaning sets and stores in the batch (KIP-534). A record without a key has no place in a
compacted log. Batches keep their offsets. A batch that loses all records is removed, unless it is the newest of its log
or an idempotent producer may repeat it: then its header stays.

In a log with transactions, data of aborted ones is removed for all keys, and markers some time after the data of their
transactions (`cleaner_transactions.py`).

A batch that cannot be unpacked stays as it is. It may hide an older value of any key, so from then on no tombstone of
that log is removed.

Everything here is a generator that yields now and then, so that it can be run in short slices: Python code holds its
interpreter, and with it the loop, for as long as it runs.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.journal.clean.cleaner_transactions import CleanedTransactions
from hutong.journal.clean.newest_keys import KeyMap, hash_of
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.record_slices import (
    DELETE_HORIZON,
    RecordSlice,
    iterate_slices,
    rebuild_batch,
    unpack_records,
    with_timestamp_delta,
)
from hutong.wire.kafka.batch.record_walk import INT64_MAX, INT64_MIN
from hutong.wire.kafka.batch.records import COMPRESSION_MASK, BatchHeader

RECORDS_PER_SLICE: Final = 32
_UNREADABLE: Final = (ProtocolError, LimitExceeded, UsageError)


@dataclass(slots=True)
class LogRules:
    """The rules of cleaning for one log. Without `is_compacted` its batches are copied as they are."""

    partition_id: int
    start_offset: int
    end_offset: int
    is_compacted: bool = False
    clean_offset: int = 0  # dirty from here
    limit_offset: int = 0  # to before here
    delete_retention_ms: int = 0
    producers_batches: frozenset[int] = frozenset()  # base offsets of batches that a producer may repeat
    mapped_offset: int = 0  # whose keys before it are noted; nothing behind it is touched
    keeps_tombstones: bool = field(default=False)
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)

    def must_stay(self, header: BatchHeader) -> bool:
        """True if at least the header of a batch stays: the log ends with it, or its producer may repeat it."""
        return header.last_offset + 1 >= self.end_offset or header.base_offset in self.producers_batches


class Noted(NamedTuple):
    """The outcome for the keys of one batch: `is_whole` if there was room for all of them."""

    is_whole: bool
    is_readable: bool


class RecordFilter:
    """One pass over the logs of one journal, with one map of keys."""

    def __init__(self, keys: KeyMap, now_ms: int, unpacked_bytes_max: int) -> None:
        self.sets_horizons = True  # tombstones get their delete horizon
        self._keys = keys
        self._now_ms = now_ms
        self._unpacked_bytes_max = unpacked_bytes_max

    def note(self, rules: LogRules, header: BatchHeader, batch: Buffer) -> Generator[int, None, Noted]:
        """Put the keys of a batch into the map."""
        # Keys of aborted data must not make older committed records look replaced.
        if header.is_control or rules.transactions.is_aborted(header):
            return Noted(is_whole=True, is_readable=True)
        keys, partition_id, base_offset = self._keys, rules.partition_id, header.base_offset
        try:
            data = unpack_records(header, batch, self._unpacked_bytes_max)
            for number, record in enumerate(_slices(header, data), 1):
                # A record without a key replaces nothing, so it needs no room.
                if record.key is not None and not keys.put(
                    hash_of(partition_id, record.key), base_offset + record.offset_delta
                ):
                    return Noted(is_whole=False, is_readable=True)
                if not number % RECORDS_PER_SLICE:
                    yield 0
        except _UNREADABLE:
            return Noted(is_whole=False, is_readable=False)
        return Noted(is_whole=True, is_readable=True)

    def filter_batch(self, rules: LogRules, header: BatchHeader, batch: Buffer) -> Generator[int, None, Buffer | None]:
        """The batch as it is to be stored: the same object where nothing changes, None where nothing is left."""
        # Deleted records (DeleteRecords, retention) go whatever the log's policy.
        if header.last_offset < rules.start_offset and not rules.must_stay(header):
            return None
        # Behind the mapped offset keys are not known, so nothing there can be called old.
        if not rules.is_compacted or header.base_offset >= rules.mapped_offset:
            return batch
        is_needed = rules.transactions.meet(header)
        if header.is_control:
            return batch if is_needed else (yield from self._marker(rules, header, batch))
        # No reader may see aborted data, so all of it goes at once, whatever its keys.
        if rules.transactions.is_aborted(header):
            return self._emptied(rules, header, batch)
        try:
            data = unpack_records(header, batch, self._unpacked_bytes_max)
            kept = _KeptRecords()
            for number, record in enumerate(_slices(header, data), 1):
                kept.add(record, stays=self._stays(rules, header, record))
                if not number % RECORDS_PER_SLICE:
                    yield 0
        except _UNREADABLE:
            # An unread batch may hold records that later tombstones delete, so those must stay.
            rules.keeps_tombstones = True
            return batch
        return (yield from self._rebuilt(rules, header, batch, data, kept))

    def _marker(self, rules: LogRules, header: BatchHeader, batch: Buffer) -> Generator[int, None, Buffer | None]:
        """Start the delete horizon of a marker without data, or drop the marker once that has passed."""
        # The marker's time is over: readers that were inside the transaction have learned its end.
        if self._is_over(rules, header) and not rules.transactions.is_named(header):
            return self._emptied(rules, header, batch)
        try:
            data = unpack_records(header, batch, self._unpacked_bytes_max)
            kept = _KeptRecords()
            for record in _slices(header, data):
                kept.add(record, stays=True)
        except _UNREADABLE:
            return batch
        return (yield from self._rebuilt(rules, header, batch, data, kept))

    def _stays(self, rules: LogRules, header: BatchHeader, record: RecordSlice) -> bool:
        offset = header.base_offset + record.offset_delta
        # A record without a key can never be replaced; Kafka drops it as invalid for a compacted topic.
        if record.key is None or offset < rules.start_offset:
            return False
        # Readers had `delete.retention.ms` to see the tombstone; what it deletes is gone by now.
        if record.is_tombstone and self._is_over(rules, header):
            return False
        return self._keys.newest(hash_of(rules.partition_id, record.key)) <= offset

    def _is_over(self, rules: LogRules, header: BatchHeader) -> bool:
        """True if the batch has a delete horizon (KIP-534) and that has passed."""
        has_horizon = header.attributes & DELETE_HORIZON != 0
        return has_horizon and header.base_timestamp_ms <= self._now_ms and not rules.keeps_tombstones

    def _rebuilt(
        self, rules: LogRules, header: BatchHeader, batch: Buffer, data: bytes, kept: "_KeptRecords"
    ) -> Generator[int, None, Buffer | None]:
        """Copy the remaining records in a second walk, so that memory per record is one byte."""
        if not kept.count:
            return self._emptied(rules, header, batch)
        base_timestamp_ms, attributes = header.base_timestamp_ms, header.attributes
        horizon_ms = self._now_ms + rules.delete_retention_ms
        moved_ms = base_timestamp_ms - horizon_ms
        sets_horizon = (
            self.sets_horizons
            and header.attributes & DELETE_HORIZON == 0
            and (header.is_control or kept.has_tombstone)
            # A time so early that no delta from the horizon reaches it keeps its tombstones.
            and kept.least_delta_ms + moved_ms >= INT64_MIN
            and kept.greatest_delta_ms + moved_ms <= INT64_MAX
        )
        # Nothing to change: the same object tells the caller that the batch may be copied as it is.
        if kept.count == header.record_count and not sets_horizon:
            return batch
        if sets_horizon:
            base_timestamp_ms = horizon_ms
            attributes |= DELETE_HORIZON
        records = bytearray()
        for number, (record, stays) in enumerate(zip(_slices(header, data), kept.flags, strict=True), 1):
            # Deltas are relative to the base timestamp, which becomes the horizon (KIP-534): each is written again.
            if stays and sets_horizon:
                records += with_timestamp_delta(data, record, record.timestamp_delta_ms + moved_ms)
            elif stays:
                records += data[record.start : record.end]
            if not number % RECORDS_PER_SLICE:
                yield 0
        max_timestamp_ms = header.max_timestamp_ms
        # The record with the greatest timestamp may be gone. With LogAppendTime all records share the header's.
        if not header.is_log_append_time:
            max_timestamp_ms = header.base_timestamp_ms + kept.greatest_delta_ms
        return rebuild_batch(
            header,
            bytes(records),
            kept.count,
            attributes=attributes,
            base_timestamp_ms=base_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
        )

    def _emptied(self, rules: LogRules, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if not rules.must_stay(header):
            return None
        # An earlier cleaning has emptied it already.
        if not header.record_count:
            return batch
        attributes = header.attributes & ~DELETE_HORIZON & ~COMPRESSION_MASK
        return rebuild_batch(
            header,
            b"",
            0,
            attributes=attributes,
            base_timestamp_ms=header.base_timestamp_ms,
            max_timestamp_ms=header.max_timestamp_ms,
        )


class _KeptRecords:
    """The verdict on each record of a batch, a byte for each, and a summary of those that stay."""

    def __init__(self) -> None:
        self.flags = bytearray()
        self.count = 0
        self.has_tombstone = False
        self.least_delta_ms = INT64_MAX
        self.greatest_delta_ms = INT64_MIN

    def add(self, record: RecordSlice, *, stays: bool) -> None:
        self.flags.append(stays)
        if stays:
            self.count += 1
            self.has_tombstone |= record.is_tombstone
            self.least_delta_ms = min(self.least_delta_ms, record.timestamp_delta_ms)
            self.greatest_delta_ms = max(self.greatest_delta_ms, record.timestamp_delta_ms)


def _slices(header: BatchHeader, data: bytes) -> Iterator[RecordSlice]:
    return iterate_slices(data, header.record_count, header.last_offset_delta)
