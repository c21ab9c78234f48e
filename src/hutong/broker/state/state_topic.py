"""State topics: a map kept in a log. The last value of each key wins; a tombstone removes it.

Strategy: an append becomes visible when it is durable, in the order of appends. What has been overwritten is dropped by
*snapshot and trim* rather than by rewriting segments: when the log has grown by several times what is live, every live
value is appended again, slice by slice, each when the one before it is on disk, and then all that came before the
snapshot is trimmed. A crash at any moment leaves a log whose replay gives the same map:

- a slice holds only durable values, and never a key that has an append on its way: replay could not put an old value
  over a newer one;
- a key that was left out for that reason has its new value behind the trim position, and nothing is trimmed before that
  is on disk, or at all if it fails.

An append that failed may become durable later (a full disk that has space again). Then it takes effect here as it would
at the next start, and `on_late` is called, so that the node's state is that of the log. The storage reports it
before it takes anything new.

Slices keep the loop free however large the map is, and share their flushes with everything else.

Knows nothing of what keys and values mean, nor where the log is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import CorruptData, HutongError, ProtocolError
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records

Entry: TypeAlias = tuple[bytes, bytes | None]

GARBAGE_FLOOR_BYTES: Final = 1024 * 1024  # a log shorter than this is not worth compacting
GARBAGE_RATIO: Final = 4
SLICE_BYTES: Final = 256 * 1024
_RECORD_OVERHEAD_BYTES: Final = 16


class StateStorage(Protocol):
    """The log underneath: one partition of record batches."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The next offset to be given, appends on their way included."""
        ...

    def append(self, batch: bytes, then: Continuation[None], late: Callable[[], None] | None = None) -> None:
        """Append one batch; `then` is called once, with None when it is durable, in the order of appends.

        `late` is called if it becomes durable after `then` was given an error.
        """
        ...

    async def read(self, offset: int) -> Sequence[memoryview]:
        """A run of whole batches from the one that holds `offset` on; at least one batch. Only before any append."""
        ...

    def trim_before(self, offset: int) -> None:
        """Delete all before `offset`; some of it may still be there after a crash."""
        ...


class _Append:
    """One append on its way."""

    __slots__ = ("base_offset", "entries", "then")

    def __init__(self, base_offset: int, entries: Sequence[Entry], then: Continuation[None]) -> None:
        self.base_offset = base_offset
        self.entries = entries
        self.then = then


class _Snapshot:
    """One snapshot on its way: what is still to be written, and what may be trimmed afterwards."""

    __slots__ = ("awaited", "is_safe", "keys", "trim_offset")

    def __init__(self, trim_offset: int, keys: Iterator[bytes]) -> None:
        self.trim_offset = trim_offset
        self.keys = keys
        self.awaited: _Append | None = None  # once all slices are written: the last append that must be durable too
        self.is_safe = True  # False once an append has failed: an older value may be all there is


class StateTopic:
    """A durable map. `replay` first, then append."""

    def __init__(
        self,
        name: str,
        storage: StateStorage,
        clock: Clock,
        *,
        garbage_floor_bytes: int = GARBAGE_FLOOR_BYTES,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self.name = name
        self.snapshots_total = 0
        self.on_late: Callable[[bytes, bytes | None], None] = lambda _key, _value: None  # after its append had failed
        self._storage = storage
        self._clock = clock
        self._garbage_floor_bytes = garbage_floor_bytes
        self._slice_bytes = slice_bytes
        self._live: dict[bytes, bytes] = {}
        self._live_bytes = 0
        self._garbage_bytes = 0  # appended since the last snapshot began, or found beyond what is live at start
        self._pending: dict[_Append, None] = {}  # in the order of appends
        self._pending_keys: Counter[bytes] = Counter()
        self._snapshot: _Snapshot | None = None

    @property
    def live(self) -> Mapping[bytes, bytes]:
        """The map as it is on disk. To be read only."""
        return self._live

    async def replay(self, apply: Callable[[bytes, bytes | None], None]) -> int:
        """Give every record of the log to `apply`, oldest first; returns how many.

        Raises CorruptData where the log cannot be read as records, and StorageError.
        """
        start_offset, end_offset = self._storage.start_offset, self._storage.end_offset
        offset, count, total_bytes = start_offset, 0, 0
        while offset < end_offset:
            runs = await self._storage.read(offset)
            read_from = offset
            for record, size in self._records(runs):
                offset = record.offset + 1
                total_bytes += size
                # A read gives whole batches, so the first one may begin before what was trimmed.
                if record.offset >= start_offset:
                    self._replay_one(record, apply)
                    count += 1
            # A read without progress would repeat for ever: the log says it has records that it cannot give.
            if offset == read_from:
                raise CorruptData(f"{self.name} ends at offset {offset}, where {end_offset} was expected")
        self._garbage_bytes = max(0, total_bytes - self._live_bytes)
        return count

    def append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        """Set one key, or remove it with None; `then` gets None once that is durable, or the error."""
        self.append_all([(key, value)], then)

    def append_all(self, entries: Sequence[Entry], then: Continuation[None]) -> None:
        """Change several keys at once: after a crash all of it is there or nothing."""
        if not entries:
            then(None)
            return
        append = _Append(self._storage.end_offset, entries, then)
        # Before the storage gets it: the storage may answer within the call.
        self._pending[append] = None
        self._pending_keys.update(key for key, _ in entries)
        batch = self._batch(entries)
        self._garbage_bytes += len(batch)
        self._storage.append(batch, lambda error: self._appended(append, error), lambda: self._late(append))

    def check_invariants(self) -> None:
        assert self._live_bytes == sum(_size(key, value) for key, value in self._live.items())
        assert self._pending_keys == Counter(key for append in self._pending for key, _ in append.entries)
        assert all(self._pending_keys.values())

    # -- inside

    def _records(self, runs: Sequence[memoryview]) -> Iterator[tuple[Record, int]]:
        try:
            for run in runs:
                for header, batch in iterate_batches(run):
                    # Nothing transactional is written here; the check costs nothing and keeps markers from being taken
                    # for entries.
                    if not header.is_control:
                        for record in iterate_records(batch):
                            yield record, _size(record.key or b"", record.value)
        except ProtocolError as error:
            raise CorruptData(f"{self.name}: {error}") from error

    def _replay_one(self, record: Record, apply: Callable[[bytes, bytes | None], None]) -> None:
        if record.key is None:
            raise CorruptData(f"{self.name} has a record without a key at offset {record.offset}")
        self._apply(record.key, record.value)
        try:
            apply(record.key, record.value)
        # A record of another program or version: the node does not start on state that it half understands.
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(
                f"{self.name} has a record at offset {record.offset} that cannot be read: {error!r}"
            ) from error

    def _late(self, append: _Append) -> None:
        for key, value in append.entries:
            self._apply(key, value)
            self.on_late(key, value)

    def _appended(self, append: _Append, error: HutongError | None) -> None:
        del self._pending[append]
        self._pending_keys.subtract(key for key, _ in append.entries)
        for key, value in append.entries:
            # A Counter keeps keys at zero, and the snapshot tests for a key, not for its count.
            if not self._pending_keys[key]:
                del self._pending_keys[key]
            if error is None:
                self._apply(key, value)
        # The failed append may become durable later, before what the snapshot has written: trimming would lose it.
        if error is not None and self._snapshot is not None:
            self._snapshot.is_safe = False
        append.then(error)
        if self._snapshot is not None and self._snapshot.awaited is append:
            self._end_snapshot(self._snapshot)
        # Not after a failure: what failed may become durable later, so the log refuses to be trimmed behind it. After a
        # success all that came before is durable.
        if error is None and self._snapshot is None and self._garbage_bytes > self._garbage_allowed_bytes:
            self._begin_snapshot()

    @property
    def _garbage_allowed_bytes(self) -> int:
        return max(self._garbage_floor_bytes, GARBAGE_RATIO * self._live_bytes)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        before = self._live.pop(key, None)
        if before is not None:
            self._live_bytes -= _size(key, before)
        if value is not None:
            self._live[key] = value
            self._live_bytes += _size(key, value)

    def _batch(self, entries: Sequence[Entry]) -> bytes:
        now_ms = self._clock.wall_ms()
        return build_batch([Record(timestamp_ms=now_ms, key=key, value=value) for key, value in entries])

    # -- snapshots

    def _begin_snapshot(self) -> None:
        first_pending = next(iter(self._pending), None)
        # Appends on their way are not in the map yet, so the trim must stop before the first of them.
        trim_offset = self._storage.end_offset if first_pending is None else first_pending.base_offset
        self._snapshot = _Snapshot(trim_offset, iter(list(self._live)))
        self._garbage_bytes = 0
        self._write_slice(self._snapshot)

    def _write_slice(self, snapshot: _Snapshot) -> None:
        entries = list(self._next_slice(snapshot))
        if entries:
            self._storage.append(self._batch(entries), lambda error: self._slice_written(snapshot, error))
        else:
            # Appends are durable in order: once the last one is, so are all that the slices left out.
            snapshot.awaited = next(reversed(self._pending), None)
            if snapshot.awaited is None:
                self._end_snapshot(snapshot)

    def _next_slice(self, snapshot: _Snapshot) -> Iterator[Entry]:
        size = 0
        for key in snapshot.keys:
            value = self._live.get(key)
            if value is None or key in self._pending_keys:
                continue  # deleted since, or about to be newer: either is behind the trim position
            yield key, value
            size += _size(key, value)
            if size >= self._slice_bytes:
                return

    def _slice_written(self, snapshot: _Snapshot, error: HutongError | None) -> None:
        if error is None and snapshot.is_safe:
            self._write_slice(snapshot)
        else:
            self._snapshot = None  # what was written does no harm; the next one starts over

    def _end_snapshot(self, snapshot: _Snapshot) -> None:
        self._snapshot = None
        if snapshot.is_safe:
            self.snapshots_total += 1
            self._storage.trim_before(snapshot.trim_offset)


def _size(key: bytes, value: bytes | None) -> int:
    return _RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")
