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

Among several nodes one leads the topic, as above. The others *follow*: they append nothing, and apply each record when
it is committed (`state_tail.py`). Who stops leading fails what is on its way; what of it is committed all the same
comes by the tail, once. A follower that was behind a trim applies all that the log still has, and then removes every
key that it has not met there: the snapshot had all that lived.

Knows nothing of what keys and values mean, nor where the log is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, ProtocolError
from hutong.foundation.waiting.pending import Continuation, settle_future
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records

if TYPE_CHECKING:
    from hutong.broker.state.following import Following
    from hutong.broker.state.state_tail import FollowedStorage, TailPace

Apply: TypeAlias = Callable[[bytes, "bytes | None"], None]
"""Called with (key, value); None removes the key."""
Entry: TypeAlias = tuple[bytes, bytes | None]

GARBAGE_FLOOR_BYTES: Final = 1024 * 1024  # a log shorter than this is not worth compacting
GARBAGE_RATIO: Final = 4
SLICE_BYTES: Final = 256 * 1024
APPLIED_WAITS_MAX: Final = 100_000
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

    __slots__ = ("base_offset", "end_offset", "entries", "then")

    def __init__(self, base_offset: int, entries: Sequence[Entry], then: Continuation[None]) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset + len(entries)
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
        self.on_late: Apply = lambda _key, _value: None  # a record that is durable after its append had failed
        self.on_record: Apply = lambda _key, _value: None  # a change that was found while following
        self.on_failure: Callable[[CorruptData], None] = _raise  # a record that this node cannot read; it stops there
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
        self._offset = 0  # everything before it is applied
        self._refusal: HutongError | None = None  # of appends, while this node does not lead
        self._following: Following | None = None
        self._promotion: Continuation[None] | None = None  # waits until it leads
        # Until an offset is applied, by default that which the log ended at; few at a time.
        self._waits: list[tuple[int, Continuation[None], bool]] = []

    @property
    def is_leading(self) -> bool:
        """True while it takes appends."""
        return self._refusal is None

    @property
    def applied_offset(self) -> int:
        """Everything before it is applied, here and by those who appended it."""
        return self._offset

    @property
    def end_offset(self) -> int:
        """The end of the log, with what is on its way."""
        return self._storage.end_offset

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
            for record, key in records_in(self.name, runs, offset):
                offset = record.offset + 1
                total_bytes += size_of(key, record.value)
                self._apply(key, record.value)
                apply_record(self.name, record, key, apply)
                count += 1
            # A read without progress would repeat for ever: the log says it has records that it cannot give.
            if offset == read_from:
                raise CorruptData(f"{self.name} ends at offset {offset}, where {end_offset} was expected")
        self._garbage_bytes = max(0, total_bytes - self._live_bytes)
        self._offset = max(self._offset, offset)
        return count

    # -- roles

    def step_down(self, refusal: HutongError) -> None:
        """Lead no more: what is on its way fails with `refusal`, and so does every append from now on.

        What of it is committed all the same arrives once the topic follows.
        """
        self._refusal = refusal
        self._snapshot = None
        pending, self._pending = self._pending, {}
        self._pending_keys.clear()
        for append in pending:
            append.then(refusal)
        promotion, self._promotion = self._promotion, None
        if promotion is not None:
            promotion(refusal)

    def follow(self, storage: FollowedStorage, refusal: HutongError, pace: TailPace) -> None:
        """Apply what is committed in this log, from the applied offset on. Appends fail with `refusal`.

        Called again with another log, or with the same one after it was opened anew, it goes on in that.
        """
        from hutong.broker.state.following import Following  # late: a node alone never needs it

        self.step_down(refusal)
        self._storage = storage
        if self._following is None:
            self._following = Following(
                self.name,
                self._live,
                self._offset,
                change=self._change,
                advanced=self._advanced,
                trimmed=self._trimmed,
                failed=self._failed,
                pace=pace,
            )
        # A log that was cut has lost what was not committed: nobody waits for that.
        end_offset = storage.end_offset
        self._waits = [(min(at, end_offset) if is_end else at, then, is_end) for at, then, is_end in self._waits]
        self._following.use(storage)
        self._resume_waits()

    async def lead(self) -> None:
        """Apply all that the log has, which is committed, and accept appends from then on.

        Raises the refusal of `follow` or `close` if one of them is called meanwhile.
        """
        import asyncio  # here: only coroutines need a loop

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_leading(lambda error: settle_future(future, error))
        await future

    def when_leading(self, then: Continuation[None]) -> None:
        """`lead` with a continuation."""
        if self._refusal is None:
            then(None)
            return
        assert self._promotion is None, "it is about to lead already"
        self._promotion = then

        def applied(error: HutongError | None) -> None:
            # Otherwise it has to follow again, and the caller has heard of that.
            if self._promotion is not then:
                return
            self._promotion = None
            if error is None:
                if self._following is not None:
                    self._following.stop()
                self._following = self._refusal = None
            then(error)

        self.when_applied(None, applied)

    def close(self, error: HutongError) -> None:
        """Apply nothing more, append nothing more; everything that waits fails."""
        if self._following is not None:
            self._following.stop()
        self.step_down(error)
        self._fail_waits(error)

    def look(self) -> None:
        """Look for records that are committed; for callers that hear of commits before the log's watchers do."""
        if self._following is not None:
            self._following.look()

    def when_applied(self, offset: int | None, then: Continuation[None]) -> None:
        """Call `then` once everything before `offset` is applied, perhaps at once; with LimitExceeded if many wait.

        None for all that the log has at this moment, unless a part of that is never committed.
        """
        is_end = offset is None
        offset = self._storage.end_offset if offset is None else offset
        if self._offset >= offset:
            then(None)
        elif len(self._waits) >= APPLIED_WAITS_MAX:
            then(LimitExceeded("APPLIED_WAITS_MAX", APPLIED_WAITS_MAX))
        else:
            self._waits.append((offset, then, is_end))

    async def applied(self, offset: int | None = None) -> None:
        """`when_applied`, to be awaited."""
        import asyncio  # here: only coroutines need a loop

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_applied(offset, lambda error: settle_future(future, error))
        await future

    # -- appends

    def append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        """Set one key, or remove it with None; `then` gets None once that is durable, or the error."""
        self.append_all([(key, value)], then)

    def append_all(self, entries: Sequence[Entry], then: Continuation[None]) -> None:
        """Change several keys at once: after a crash all of it is there or nothing."""
        if self._refusal is not None:
            then(self._refusal)
            return
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
        assert self._live_bytes == sum(size_of(key, value) for key, value in self._live.items())
        assert self._pending_keys == Counter(key for append in self._pending for key, _ in append.entries)
        assert all(self._pending_keys.values())

    # -- inside

    def _change(self, key: bytes, value: bytes | None) -> None:
        """Apply what was found while following."""
        self._apply(key, value)
        self.on_record(key, value)

    def _advanced(self, offset: int, read_bytes: int) -> None:
        """Note what a follower has applied. What it reads is garbage once it leads, apart from what lives."""
        self._offset = offset
        self._garbage_bytes += read_bytes
        self._resume_waits()

    def _resume_waits(self) -> None:
        if not self._waits:
            return
        due = [then for offset, then, _ in self._waits if offset <= self._offset]
        self._waits = [each for each in self._waits if each[0] > self._offset]
        for then in due:
            then(None)

    def _fail_waits(self, error: HutongError) -> None:
        waits, self._waits = self._waits, []
        for _, then, _ in waits:
            then(error)

    def _trimmed(self) -> None:
        self._garbage_bytes = 0

    def _failed(self, error: CorruptData) -> None:
        self._fail_waits(error)
        self.on_failure(error)

    def _late(self, append: _Append) -> None:
        # Another node has led since: what is in the log now comes by the tail.
        if self._refusal is not None or append.end_offset <= self._offset:
            return
        self._offset = append.end_offset
        for key, value in append.entries:
            self._apply(key, value)
            self.on_late(key, value)
        self._resume_waits()

    def _appended(self, append: _Append, error: HutongError | None) -> None:
        # It was failed when this node stopped leading.
        if append not in self._pending:
            return
        del self._pending[append]
        self._pending_keys.subtract(key for key, _ in append.entries)
        for key, value in append.entries:
            # A Counter keeps keys at zero, and the snapshot tests for a key, not for its count.
            if not self._pending_keys[key]:
                del self._pending_keys[key]
            if error is None:
                self._apply(key, value)
        if error is None:
            self._offset = append.end_offset
        # The failed append may become durable later, before what the snapshot has written: trimming would lose it.
        elif self._snapshot is not None:
            self._snapshot.is_safe = False
        append.then(error)
        self._resume_waits()
        if self._snapshot is not None and self._snapshot.awaited is append:
            self._end_snapshot(self._snapshot)
        # Not after a failure: what failed may become durable later, so the log refuses to be trimmed behind it. After a
        # success all that came before is durable.
        is_due = self._garbage_bytes > self._garbage_allowed_bytes
        if error is None and self._snapshot is None and is_due and self._refusal is None:
            self._begin_snapshot()

    @property
    def _garbage_allowed_bytes(self) -> int:
        return max(self._garbage_floor_bytes, GARBAGE_RATIO * self._live_bytes)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        before = self._live.pop(key, None)
        if before is not None:
            self._live_bytes -= size_of(key, before)
        if value is not None:
            self._live[key] = value
            self._live_bytes += size_of(key, value)

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
            end_offset = self._storage.end_offset + len(entries)
            self._storage.append(
                self._batch(entries),
                lambda error: self._slice_written(snapshot, end_offset, error),
                lambda: self._slice_late(end_offset),
            )
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
            size += size_of(key, value)
            if size >= self._slice_bytes:
                return

    def _slice_late(self, end_offset: int) -> None:
        """Note a slice that is durable after it had failed: it changes nothing."""
        if self._refusal is None and end_offset > self._offset:
            self._offset = end_offset
            self._resume_waits()

    def _slice_written(self, snapshot: _Snapshot, end_offset: int, error: HutongError | None) -> None:
        if snapshot is not self._snapshot:
            return  # this node has stopped leading since
        if error is None:
            self._offset = end_offset
            self._resume_waits()
        if error is None and snapshot.is_safe:
            self._write_slice(snapshot)
        else:
            self._snapshot = None  # what was written does no harm; the next one starts over

    def _end_snapshot(self, snapshot: _Snapshot) -> None:
        self._snapshot = None
        if snapshot.is_safe:
            self.snapshots_total += 1
            self._storage.trim_before(snapshot.trim_offset)


def _raise(error: CorruptData) -> None:
    raise error


def size_of(key: bytes, value: bytes | None) -> int:
    """The bytes that an entry takes up, about."""
    return _RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")


def records_in(name: str, runs: Sequence[memoryview], from_offset: int) -> Iterator[tuple[Record, bytes]]:
    """Each record from an offset on, with its key; a read gives whole batches, so they may begin before it.

    Raises CorruptData where they cannot be read.
    """
    try:
        for run in runs:
            for header, batch in iterate_batches(run):
                # Nothing transactional is written here; the check costs nothing and keeps markers from being taken for
                # entries.
                if header.is_control:
                    continue
                for record in iterate_records(batch):
                    if record.offset < from_offset:
                        continue
                    if record.key is None:
                        raise CorruptData(f"{name} has a record without a key at offset {record.offset}")
                    yield record, record.key
    except ProtocolError as error:
        raise CorruptData(f"{name}: {error}") from error


def apply_record(name: str, record: Record, key: bytes, apply: Apply) -> None:
    """Hand a record on. Raises CorruptData where nobody can read it."""
    try:
        apply(key, record.value)
    # A record of another program or version: the node does not go on with state that it half understands.
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{name} has a record at offset {record.offset} that cannot be read: {error!r}") from error
