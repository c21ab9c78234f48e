"""Share fetches: the queues of fetches that wait for records of a share partition, and the order of serving them.

Strategy: each share partition (a group in a partition) has a queue of fetches that found nothing; later fetches queue
up behind them. Whenever records may be available the share partition is due. In each loop iteration one due share
partition serves the first fetch of its queue and goes to the end of those that are due. So the members of a group take
turns, and so do groups and partitions, however many records one of them has.

A fetch reads its session's partitions beginning with another one each time. It is answered when it has found records,
when something is wrong, or when its time is over. Records that left memory are read in fair turns
(`broker/fetch/disk_reads.py`).

Does not decide which member gets which record: that is the share partition's (`groups/share/delivery/machine.py`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.responses import error_code_of
from hutong.foundation.errors import CorruptData, Expired, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.groups.share.delivery.messages import Acquire, Acquired, BatchSpan
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import BatchHeader, iterate_batches
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.fetch.disk_reads import DiskReads
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.share.share_logs import ShareLogs
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.clock import Clock
    from hutong.foundation.waiting.table import ParkedWait, WaitTable
    from hutong.groups.share.delivery.driver import Deliveries
    from hutong.groups.share.delivery.machine import SharePartition
    from hutong.groups.share.records import PartitionKey
    from hutong.groups.share.settings import GroupRules

READ_BYTES_MAX: Final = 1024 * 1024  # of one partition; a larger batch is read whole
ROUNDS_MAX: Final = 64  # of one pass over one partition, where its records are not for readers
Batch = tuple[BatchHeader, memoryview]
_LED_ELSEWHERE: Final = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads this partition.")


@dataclass(slots=True)
class FoundRecords:
    """The records and the error that a fetch has found in one partition."""

    error: int = ErrorCode.NONE
    message: str | None = None
    buffers: list[memoryview] = field(default_factory=list)
    acquired: list[Acquired] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wish:
    """The member and the limits of a fetch. `lock_ms` is for its records alone; None: as the group's rules say.

    `is_ordered`: of each partition nothing while a record before is not settled. `is_peek`: the records are for others.
    """

    group_id: str
    member_id: str
    wait_ms_max: int
    bytes_max: int
    records_max: int
    batch_size: int
    is_strict: bool
    lock_ms: int | None = None
    is_ordered: bool = False
    is_peek: bool = False


class _WaitQueue:
    """The fetches that wait for one share partition."""

    __slots__ = ("has_missed", "is_due", "key", "partition", "waiting", "wake")

    def __init__(self, key: PartitionKey, partition: Partition | None, wake: Callable[[], None]) -> None:
        self.key = key
        self.partition = partition
        self.wake = wake
        self.waiting: OrderedDict[ShareFetch, None] = OrderedDict()
        self.is_due = False
        self.has_missed = False  # it was due, and all fetches in the queue were being served elsewhere


class ShareFetches:
    """All share fetches of this node."""

    def __init__(
        self,
        deliveries: Deliveries,
        rules_of: Callable[[str], GroupRules],
        logs: ShareLogs,
        disk_reads: DiskReads,
        read_actors: ReadActors,
        table: WaitTable[None],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.deliveries = deliveries
        self.rules_of = rules_of
        self.logs = logs
        self.disk_reads = disk_reads
        self.read_actors = read_actors
        self.waits = table
        self.clock = clock
        self.records_total = 0
        self._call_soon = call_soon
        self._queues: dict[PartitionKey, _WaitQueue] = {}
        self._due: deque[_WaitQueue] = deque()
        self._is_armed = False
        deliveries.on_offer = self.offered

    def fetch(
        self,
        wish: Wish,
        keys: Sequence[PartitionKey],
        session: ClientSession,
        then: Callable[[dict[PartitionKey, FoundRecords]], None],
    ) -> None:
        """Get records of some of these partitions; `then` is called once, never when the client has gone."""
        ShareFetch(self, wish, keys, session, then).begin_fetch()

    def offered(self, key: PartitionKey) -> None:
        """Serve this share partition soon: it may have records for a fetch."""
        queue = self._queues.get(key)
        # A flush and a released lock may both report the partition before it is served: it is due once.
        if queue is not None and not queue.is_due:
            queue.is_due = True
            self._due.append(queue)
            self._arm()

    def is_awaited(self, key: PartitionKey) -> bool:
        """True if other fetches wait for this share partition."""
        return key in self._queues

    def enqueue(self, fetch: ShareFetch, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = _WaitQueue(key, self.logs.find(key), lambda key=key: self.offered(key))  # type: ignore[misc]
                if queue.partition is not None:
                    # Released and expired records call `offered` themselves; the log reports new ones.
                    queue.partition.log.watch(queue.wake)
            queue.waiting[fetch] = None

    def dequeue(self, fetch: ShareFetch, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            queue = self._queues.get(key)
            if queue is None or queue.waiting.pop(fetch, _ABSENT) is _ABSENT or queue.waiting:
                continue
            # An empty queue watches nothing, so that idle share partitions cost no callback on each flush.
            del self._queues[key]
            if queue.partition is not None:
                queue.partition.log.unwatch(queue.wake)

    def _arm(self) -> None:
        # One callback of the loop serves one queue, however many become due in this iteration.
        if not self._is_armed:
            self._is_armed = True
            self._call_soon(self._serve_next)

    def _serve_next(self) -> None:
        self._is_armed = False
        queue = self._due.popleft()
        queue.is_due = False
        if self._due:
            self._arm()  # one share partition in each loop iteration, so that other connections are served between
        # Its last fetch was answered meanwhile.
        if self._queues.get(queue.key) is not queue:
            return
        # A fetch that reads another partition right now is passed over, not waited for.
        first = next((fetch for fetch in queue.waiting if not fetch.is_in_service), None)
        if first is None:
            queue.has_missed = True
        else:
            first.serve(queue.key)

    def serve_missed(self, keys: Iterable[PartitionKey]) -> None:
        """A waiting fetch is free again: offer it the share partitions that it has missed."""
        for key in keys:
            queue = self._queues.get(key)
            if queue is not None and queue.has_missed:
                queue.has_missed = False
                self.offered(key)


_ABSENT: Final = object()


class ShareFetch:
    """One fetch, from its coming to its answer."""

    __slots__ = (
        "_all",
        "_bytes_left",
        "_found",
        "_is_over",
        "_keys",
        "_parked",
        "_reads",
        "_records_left",
        "_session",
        "_then",
        "_wish",
    )

    def __init__(
        self,
        everybody: ShareFetches,
        wish: Wish,
        keys: Sequence[PartitionKey],
        session: ClientSession,
        then: Callable[[dict[PartitionKey, FoundRecords]], None],
    ) -> None:
        self._all = everybody
        self._wish = wish
        self._keys = keys
        self._session = session
        self._then: Callable[[dict[PartitionKey, FoundRecords]], None] | None = then
        self._found: dict[PartitionKey, FoundRecords] = {}
        self._records_left = wish.records_max  # after what is taken already, whether handed over yet or not
        self._bytes_left = wish.bytes_max
        self._reads = 0  # of partitions, that have not ended
        self._is_over = False  # its time has come, or it has got something
        self._parked: ParkedWait[None] | None = None

    @property
    def is_in_service(self) -> bool:
        return self._reads > 0

    @property
    def _has_enough(self) -> bool:
        """True if it has its records or bytes; a first batch may be larger than is asked for (KIP-74)."""
        is_first = self._records_left == self._wish.records_max
        return self._records_left <= 0 or (self._bytes_left <= 0 and not is_first)

    def begin_fetch(self) -> None:
        self._reads += 1
        for key in self._keys:
            # Fetches that wait already come first: overtaking them would starve a member.
            if not self._has_enough and not self._all.is_awaited(key):
                self._serve_partition(key)
        self._ended()

    def serve(self, key: PartitionKey) -> None:
        """Read a share partition: this fetch is the first of its queue."""
        self._reads += 1
        self._serve_partition(key)
        self._ended()

    # ---- one pass over one partition

    def _serve_partition(self, key: PartitionKey) -> None:
        self._reads += 1
        partition = self._all.logs.find(key)
        # It has moved while this fetch waited, and nobody may begin from what was read before.
        if partition is not None and not partition.standing.is_led_here:
            self._fail(key, _LED_ELSEWHERE)
            return

        def opened(outcome: SharePartition | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._fail(key, outcome)
            else:
                self._read(key, outcome, ROUNDS_MAX)

        self._all.deliveries.open(key, opened)

    def _read(self, key: PartitionKey, machine: SharePartition, rounds: int) -> None:
        # Nothing may be acquired for a client that has gone: its records would stay locked until the timeout (KIP-932).
        # `rounds` bounds the time at a log with many control records, which no reader gets.
        if self._session.owner.has_ended or not rounds or self._has_enough:
            self._ended()
            return
        # Settings and the log's start may have changed since the last fetch, and both decide what is available.
        self._all.deliveries.refresh(machine, key)
        partition, offset = self._all.logs.find(key), machine.next_offset()
        # The topic was deleted while this fetch waited.
        if partition is None:
            self._fail(key, Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        # Every record in the window is acquired or finished: the next release or acknowledgement makes it due again.
        if offset is None:
            self._ended()
            return
        actor, rules = self._all.read_actors.of_group(key.group_id, partition.topic_name)
        # Nothing is delivered while the group is suspended; a fetch after that finds what is there.
        if rules.is_suspended:
            self._ended()
            return
        log = partition.log
        is_committed = self._all.rules_of(key.group_id).is_read_committed
        # share.isolation.level of the group, not of the client: all its members see the same records (KIP-932).
        limit = log.last_stable_offset if is_committed else log.high_watermark
        try:
            size = max(0, min(self._bytes_left, READ_BYTES_MAX))
            found = log.read(offset, size, up_to=limit, disk_bytes_max=self._all.disk_reads.bytes_max)
        except Refused:
            self._ended()  # the group's position is behind the end of the log: an administrator has set it
            return

        def read(outcome: Sequence[memoryview] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._unread(key, outcome)
            else:
                self._acquire(key, partition, offset, outcome, rounds)

        if isinstance(found, DiskRead):
            self._all.disk_reads.read(found, partition, offset, self._session, actor, rules, read)
        # No record between the position and the limit: the log reports the next one.
        elif found.size:
            read(found.buffers)
        else:
            self._ended()

    def _unread(self, key: PartitionKey, error: HutongError) -> None:
        # Disk reads are bounded for all clients together. An error code would make clients log what is only load.
        if isinstance(error, Expired | LimitExceeded | OwnerGone):
            self._is_over = True  # the node is too busy: the client asks again
            self._ended()
        else:
            self._fail(key, error)

    def _acquire(
        self, key: PartitionKey, partition: Partition, offset: int, buffers: Sequence[memoryview], rounds: int
    ) -> None:
        machine = self._all.deliveries.get(key)
        # A read from disk takes time: the group, the client or the need may be gone when its bytes arrive.
        if machine is None or self._session.owner.has_ended or self._has_enough:
            self._ended()
            return
        wish = self._wish
        is_committed = self._all.rules_of(key.group_id).is_read_committed
        batches = list(_wanted(buffers, machine, self._records_left))
        spans = tuple(_spans(batches, partition, is_committed))
        if wish.is_peek:
            seen = machine.peek(offset, spans, self._records_left)
            self._records_left -= sum(each.last - each.first + 1 for each in seen)
            self._got(key, batches, seen)
            return
        event = Acquire(
            wish.member_id,
            self._all.clock.monotonic_ms(),
            offset,
            spans,
            self._records_left,
            max(1, wish.batch_size),
            wish.is_strict,
            wish.lock_ms,
            wish.is_ordered,
        )

        def handed(outcome: tuple[Acquired, ...] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._fail(key, outcome)
            elif outcome:
                self._got(key, batches, outcome)
            # All of it was control or aborted records: continue after them, in bounded rounds.
            elif machine.next_offset() not in (None, offset):
                self._read(key, machine, rounds - 1)  # what was there is not for readers
            else:
                self._ended()

        taken = self._all.deliveries.acquire(key, event, handed)
        # At once and not when they are stored: other partitions of this fetch are read meanwhile.
        self._records_left -= taken
        self._all.records_total += taken
        if taken:
            self._bytes_left -= sum(len(batch) for _, batch in batches)

    def _got(self, key: PartitionKey, batches: Sequence[Batch], acquired: tuple[Acquired, ...]) -> None:
        found = self._found.setdefault(key, FoundRecords())
        found.acquired += acquired
        found.buffers += _overlapping(batches, acquired)
        self._is_over = True
        self._ended()

    def _fail(self, key: PartitionKey, error: HutongError) -> None:
        # Damage stays, unlike other storage errors, which clients may take for passing.
        is_damaged = isinstance(error, CorruptData)
        code = ErrorCode.CORRUPT_MESSAGE if is_damaged else error_code_of(error)
        self._found[key] = FoundRecords(code, str(error))
        self._is_over = True
        self._ended()

    # ---- waiting

    def _ended(self) -> None:
        """Note that a read has ended; after the last one the fetch is answered, or waits."""
        self._reads -= 1
        # Other partitions are being read, or the client has gone: only the last pass answers, and only once.
        if self._reads or self._then is None:
            return
        if self._is_over or self._wish.wait_ms_max <= 0:
            self._answer()
            return
        # The first pass found nothing: wait in the queue of every partition.
        if self._parked is None:
            self._all.enqueue(self, self._keys)
            deadline_ms = self._all.clock.monotonic_ms() + self._wish.wait_ms_max
            try:
                self._parked = self._all.waits.park(
                    self._session.id, self._woken, deadline_ms=deadline_ms, owner=self._session.owner
                )
            # Too many fetches wait on this node. An empty answer makes the client ask again; an error would end its
            # session.
            except LimitExceeded:
                self._answer()
                return
            for key in self._keys:  # something may have come while other partitions were read
                if self._all.deliveries.get(key) is None or self._has_something(key):
                    self._all.offered(key)
        else:
            self._all.serve_missed(self._keys)

    def _has_something(self, key: PartitionKey) -> bool:
        machine, partition = self._all.deliveries.get(key), self._all.logs.find(key)
        offset = machine.next_offset() if machine is not None else None
        # Its window is full, or the topic is gone: there is nothing to offer.
        if offset is None or partition is None:
            return False
        is_committed = self._all.rules_of(key.group_id).is_read_committed
        return offset < (partition.log.last_stable_offset if is_committed else partition.log.high_watermark)

    def _woken(self, outcome: HutongError | None) -> None:
        """Answer: the time of the fetch is over, or its connection has ended."""
        # The client has gone. Its acquired records are released by its share session, not here.
        if isinstance(outcome, OwnerGone) and self._session.owner.has_ended:
            self._then = None
            self._all.dequeue(self, self._keys)
            return
        self._is_over = True
        # A pass that is under way answers at its end, with what it has acquired by then.
        if not self._reads:
            self._answer()

    def _answer(self) -> None:
        then, self._then = self._then, None
        self._all.dequeue(self, self._keys)
        if self._parked is not None:
            self._parked.abandon()
        for key in self._found:
            # It took only as many records as it wanted: there may be more for the next fetch.
            self._all.offered(key)  # to the next in the queue
        if then is not None:
            then(self._found)


def _wanted(buffers: Sequence[memoryview], machine: SharePartition, records_max: int) -> Iterator[Batch]:
    """The first batches, up to the one that completes the records that are wanted."""
    for view in buffers:
        for header, batch in iterate_batches(view):
            yield header, batch
            records_max -= machine.available_between(header.base_offset, header.last_offset)
            # Batches beyond this would only be sent for records that are not acquired.
            if records_max <= 0:
                return


def _spans(batches: Sequence[Batch], partition: Partition, is_committed: bool) -> Iterator[BatchSpan]:
    """The spans of records that readers may have; committed readers do not get aborted records."""
    aborted: deque[tuple[int, int]] = deque()
    if is_committed and batches:
        found = partition.log.aborted_between(batches[0][0].base_offset, batches[-1][0].last_offset + 1)
        # By first offset, as batches are visited in that order.
        aborted.extend(sorted(found, key=lambda entry: entry[1]))
    ended_badly: set[int] = set()
    for header, _ in batches:
        # A producer counts as aborted from the first offset of its aborted transaction.
        while aborted and aborted[0][1] <= header.last_offset:
            ended_badly.add(aborted.popleft()[0])
        if header.is_control:
            ended_badly.discard(header.producer_id)
        # As in Kafka's fetcher: aborted from the first offset to the producer's next marker.
        is_aborted = header.is_transactional and header.producer_id in ended_badly
        yield BatchSpan(header.base_offset, header.last_offset, header.is_control or is_aborted)


def _overlapping(batches: Sequence[Batch], acquired: Sequence[Acquired]) -> Iterator[memoryview]:
    """The batches that hold something of what was acquired; both come in the order of offsets."""
    index = 0
    for header, batch in batches:
        while index < len(acquired) and acquired[index].last < header.base_offset:
            index += 1
        # A batch of which nothing was acquired is left out. Others go whole: the broker never recompresses (KIP-932).
        if index < len(acquired) and acquired[index].first <= header.last_offset:
            yield batch
