"""A search for messages by a key: it looks through a topic's queues, since there is no index of keys.

    unique key   it has the time at which its client made it, about which clients ask for a range: forward from there,
                 then backward
    other keys   backward from the newest, in windows that are each read forward

Strategy: a batch that is not compressed and does not have the key's bytes is passed over whole, so the cost is the
read. Each read is a fetch of Kafka's, which waits for its turn at the disk as any reader does. One is made in each
tick of the timers, so that a search takes no more of the loop than a reader. A search ends after READ_BYTES_MAX,
shared out among the queues, after SEARCH_MS, or with its client.

Decides nothing of requests. All calls come on the loop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.broker.kafka import k01_fetch
from hutong.broker.rocketmq.records.single import message_at
from hutong.broker.rocketmq.records.visible import visible
from hutong.broker.rocketmq.refusals import RocketRefused, code_of
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import KEYS, UNIQUE_KEY
from hutong.wire.rocketmq.messages import StoredMessage, decode_properties

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.waiting.pending import Continuation
    from hutong.wire.kafka.batch.records import BatchHeader, Record

READ_BYTES: Final = 1 << 20  # of one step
READ_BYTES_MAX: Final = 256 << 20  # of one search
SEARCH_MS: Final = 8_000  # clients give up after 9 s
ANSWER_BYTES_MAX: Final = 8 << 20
WINDOW: Final = 4_096  # offsets that are read forward, before those that are older
BEFORE_MS: Final = 60_000  # a client's clock may be that far ahead of this node's
RANGE_MS: Final = 4 * 24 * 3_600_000  # a range about the time of a unique key; from 5.x on clients ask for three days
_FETCH_VERSION: Final = 11
_READ_COMMITTED: Final = 1


class KeyQuestion(NamedTuple):
    """The question. Times are those at which messages were stored, in milliseconds; both count."""

    key: str
    is_unique: bool
    begin_ms: int
    end_ms: int
    messages_max: int

    @property
    def middle_ms(self) -> int:
        """The time about which a unique key was made. Clients of 4.9 ask for all that was stored since then."""
        is_about = self.end_ms - self.begin_ms <= RANGE_MS
        return max(0, ((self.begin_ms + self.end_ms) // 2 if is_about else self.begin_ms) - BEFORE_MS)


class QueueWalk:
    """The order in which the offsets of one queue are looked at: forward from `middle` to `end`, then before it.

    `next` is the next offset, None at the end or with all bytes spent. Pure.
    """

    def __init__(self, start: int, middle: int, end: int, bytes_max: int) -> None:
        self.has_given_up = False
        self._start = start
        self._oldest = middle
        self._next = middle
        self._limit = end
        self._is_forward = middle < end
        self._bytes_left = bytes_max
        self._bytes_back = bytes_max // 2 if middle > start else 0  # kept for what is older

    @property
    def next(self) -> int | None:
        if self._bytes_left <= (self._bytes_back if self._is_forward else 0):
            self.has_given_up = True
            # Forward no more; what is older has its own half.
            self._next = self._limit
            if not self._is_forward:
                return None
        if self._next >= self._limit:
            if self._oldest <= self._start:
                return None
            self._is_forward = False
            self._limit, self._oldest = self._oldest, max(self._start, self._oldest - WINDOW)
            self._next = self._oldest
        return self._next

    def looked(self, next_offset: int, read_bytes: int) -> None:
        """Go on behind what was read; nothing was, if that is no later offset."""
        self._bytes_left -= read_bytes
        # Nothing more is there: the log was trimmed, or ends with the marker of a transaction.
        self._next = next_offset if next_offset > self._next else self._limit


class KeyQuery:
    """One search, begun by `run`. `then` gets the messages, newest first, or an error."""

    def __init__(
        self, context: RocketContext, topic: Topic, asked: KeyQuestion, then: Continuation[list[StoredMessage]]
    ) -> None:
        self.looked_bytes = 0
        self.has_given_up = False  # something was not looked at
        self._context = context
        self._asked = asked
        self._then = then
        # In a cluster clients ask each node.
        is_alone = context.parts.broker.cluster.is_alone
        searched = [each for each in topic.partitions if is_alone or each.standing.is_led_here]
        # Fewer bytes of each queue, so that the newest of all are looked at.
        self._share = max(READ_BYTES, READ_BYTES_MAX // len(topic.partitions))
        self._walks: deque[tuple[Partition, QueueWalk | None]] = deque((each, None) for each in searched)
        self._messages: list[StoredMessage] = []
        self._answer_bytes = 0
        self._deadline_ms = context.parts.broker.clock.monotonic_ms() + SEARCH_MS
        self._key = asked.key.encode()

    def run(self) -> None:
        """Look at the next piece, or answer."""
        if self._context.channel.owner.has_ended:
            self._then(OwnerGone("the client that asked has gone"))
            return
        is_late = self._context.parts.broker.clock.monotonic_ms() >= self._deadline_ms
        if is_late or self._is_full() or not self._walks:
            self.has_given_up = self.has_given_up or is_late
            self._messages.sort(key=lambda message: message.stored_ms, reverse=True)
            self._then(self._messages[: self._asked.messages_max])
            return
        # Queues take turns: what is asked for is often new, or was sent lately.
        partition, walk = self._walks.popleft()
        try:
            partition.check_served()
            if walk is None:
                self._begin(partition)
            else:
                self._step(partition, walk)
        except HutongError as error:
            self._then(error)

    def _is_full(self) -> bool:
        # A unique key is that of one message; a message that was sent again is found once.
        if self._asked.is_unique and self._messages:
            return True
        return len(self._messages) >= self._asked.messages_max or self._answer_bytes >= ANSWER_BYTES_MAX

    def _begin(self, partition: Partition) -> None:
        """Find out what of a queue is to be looked at."""
        log, asked = partition.log, self._asked

        def place(found: tuple[int, int]) -> int:
            return min(found[1], log.last_stable_offset) if found[1] >= 0 else log.last_stable_offset

        def start_found(outcome: tuple[int, int] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._then(outcome)
                return
            start = place(outcome)
            if asked.is_unique:
                log.offset_for_timestamp(asked.middle_ms, lambda found: middle_found(start, found))
            else:
                middle_found(start, (-1, -1))

        def middle_found(start: int, outcome: tuple[int, int] | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._then(outcome)
                return
            middle = max(start, place(outcome))
            self._walks.append((partition, QueueWalk(start, middle, log.last_stable_offset, self._share)))
            self._later()

        log.offset_for_timestamp(max(0, asked.begin_ms), start_found)

    def _step(self, partition: Partition, walk: QueueWalk) -> None:
        offset = walk.next
        if offset is None:
            self.has_given_up = self.has_given_up or walk.has_given_up
            self.run()
            return

        def fetched(response: FetchResponse) -> None:
            try:
                self._take(partition, walk, offset, response)
            # Damaged, or packed with a codec that is not installed here.
            except HutongError as error:
                self._then(error)
                return
            self._walks.append((partition, walk))
            self._later()

        asked = FetchPartition(partition.index, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(partition.topic_name, partitions=[asked])],
        )
        outcome = k01_fetch.handle(request, self._context.kafka(api_version=_FETCH_VERSION))
        if isinstance(outcome, Pending):
            outcome.then(fetched)
        else:
            fetched(outcome)

    def _take(self, partition: Partition, walk: QueueWalk, offset: int, response: FetchResponse) -> None:
        """Keep what was found. Raises HutongError."""
        data: PartitionData = response.responses[0].partitions[0]
        # The log was trimmed meanwhile, and what is asked for is gone.
        if data.error_code and data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise RocketRefused(code_of(data.error_code), ErrorCode(data.error_code).name)
        read_bytes = sum(len(piece) for piece in data.records or () if not isinstance(piece, int))
        next_offset = offset
        for record, end_offset in visible(data, offset, self._may_have_key):
            next_offset = end_offset
            if record is not None:
                self._check(partition, record)
        self.looked_bytes += read_bytes
        walk.looked(next_offset, read_bytes)

    def _may_have_key(self, header: BatchHeader, batch: memoryview) -> bool:
        return header.compression != Compression.NONE or self._key in bytes(batch)

    def _check(self, partition: Partition, record: Record) -> None:
        """Keep a record's message if it is one that is asked for."""
        asked = self._asked
        if not asked.begin_ms <= record.timestamp_ms <= asked.end_ms:
            return
        message = message_at(partition, record, self._context.parts.identity.store_host)
        properties = decode_properties(message.properties)
        keys = [properties.get(UNIQUE_KEY)] if asked.is_unique else properties.get(KEYS, "").split(" ")
        if asked.key in keys:
            self._messages.append(message)
            self._answer_bytes += len(message.body) + len(message.properties)

    def _later(self) -> None:
        parts = self._context.parts
        parts.timers.add(parts.broker.clock.monotonic_ms(), self.run)
