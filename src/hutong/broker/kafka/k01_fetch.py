"""Fetch (key 1, versions 4-18): read record batches from offsets on, waiting for more where there is too little.

Rules kept: an offset inside a batch returns the whole batch; the first partition that has data returns at least one
batch even over the limits (KIP-74); an error, or enough bytes, is answered at once, everything else waits for data or
`max_wait_ms`. A partition that does not exist is no reason to answer while there are others. From 7 a client may ask
for an incremental session (KIP-227, `fetch.incremental_fetch`); session id 0 in the answer declines. From 13 topics
come by id (KIP-516). A rack is accepted (KIP-392): there is no other replica to prefer.

Strategy: look at all partitions, in a session at those that may have news; where that is enough, answer. Otherwise
park one continuation and watch every partition; whatever wakes it makes it look again. A request of more than
WHOLE_PARTITIONS_MAX looks in stretches, with loop iterations for others between (`broker/dispatch/long_requests.py`),
and so do all that wake a second time: a flush may tell of a thousand partitions in one go. Data that is no longer in
memory is read in fair turns (`broker/fetch/disk_reads.py`) before the answer leaves.

A committed reader (isolation level 1) gets what is before the last stable offset, and with it which transactions were
aborted there: leaving those out is the client's. Others get null instead, as from Kafka.

Reading a topic needs a right to READ it. A right that was taken away is missed at the next look, in a session too.

A damaged batch is answered with CORRUPT_MESSAGE, by which Java's and librdkafka's consumers tell their application
where they stand, so that it can decide to go on behind; KAFKA_STORAGE_ERROR would make them look for another leader,
silently and for ever. A reader that the node has no room for gets no records, no error and a throttle time (KIP-219).
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.fetch import incremental_fetch
from hutong.broker.fetch.incremental_fetch import IDS_FROM_VERSION
from hutong.broker.fetch.parts import FetchParts
from hutong.broker.fetch.session_table import NO_SESSION_EPOCH, NO_SESSION_ID
from hutong.broker.handling.context import Later, RequestContext
from hutong.broker.handling.gather import Gather, error_code_of
from hutong.broker.rights.authorization import may, may_in_cluster, refusal
from hutong.broker.topics.partition import LEADER_EPOCH
from hutong.foundation.errors import CorruptData, Expired, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.journal.append.transactions import aborted_between
from hutong.journal.format.batches import end_offset_of
from hutong.journal.log import DiskRead
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    from hutong.broker.fetch.incremental_fetch import Turn
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.waiting.table import Parked
    from hutong.journal.log import PartitionLog

API_KEY = 1
_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
READ_COMMITTED: Final = 1
WHOLE_PARTITIONS_MAX: Final = 500
"""Looked at in one go (measured: 3 to 10 us each)."""
PIECE_PARTITIONS: Final = 100  # between two looks at the clock
TIGHT_BYTES: Final = 64 * 1024  # of one answer, and at least one batch, while memory for answers is short


def handle(request: FetchRequest, context: RequestContext[FetchParts]) -> FetchResponse | Later[FetchResponse]:
    if request.session_epoch == NO_SESSION_EPOCH and request.session_id == NO_SESSION_ID:
        return _Fetch(request, context, None).begin()
    turn = incremental_fetch.begin(request, context)
    return turn if isinstance(turn, FetchResponse) else _Fetch(request, context, turn).begin()


_Cold = tuple["Partition", int, DiskRead["list[memoryview]"], PartitionData, "array[int] | None"]
"""A read from the disk: of which partition, the offset asked, where its outcome goes, what was aborted there."""


class _Look:
    """What one look at all partitions found."""

    __slots__ = ("bytes_found", "cold", "cold_bytes", "disk_bytes_max", "has_error", "hot", "response")

    def __init__(self, disk_bytes_max: int) -> None:
        self.response = FetchResponse()
        self.bytes_found = 0
        self.has_error = False
        self.cold: list[_Cold] = []
        self.hot: list[tuple[PartitionLog, int]] = []  # logs and how many bytes of each the answer takes along
        self.cold_bytes = 0
        self.disk_bytes_max = disk_bytes_max  # of one partition

    def is_enough(self, min_bytes: int) -> bool:
        return self.has_error or self.bytes_found >= min_bytes

    def answer(self, context: RequestContext[FetchParts]) -> FetchResponse | Later[FetchResponse]:
        """The response, after what is no longer in memory was read from disk."""
        for log, size in self.hot:
            _count(context, log, size)
        if not self.cold:
            return self.response
        gather = Gather(self.response)

        def settle(
            partition: Partition,
            data: PartitionData,
            offset: int,
            rows: array[int] | None,
            outcome: list[memoryview] | HutongError,
        ) -> None:
            if isinstance(outcome, Expired | LimitExceeded):
                self.response.throttle_time_ms = context.broker.settings.fetch_throttle_ms
            elif isinstance(outcome, HutongError):
                _put_error(data, outcome)
            else:
                data.records = outcome
                _count(context, partition.log, sum(map(len, outcome)))
                if rows is not None:
                    _put_aborted(data, rows, offset, outcome)
            gather.settled()

        for partition, offset, cold, data, rows in self.cold:
            gather.expect()
            then = partial(settle, partition, data, offset, rows)
            context.broker.cold_reads.read(cold, partition, offset, context.session, then)
        return gather.returned()


class _Rights(Enum):
    """What a fetch may read."""

    ALL = auto()
    AS_ASKED = auto()  # topic by topic
    NONE = auto()


def _rights_of(request: FetchRequest, context: RequestContext[FetchParts]) -> _Rights:
    """Whoever says that it is a follower must be one: only brokers may read that way, and they may read everything."""
    if max(request.replica_id, request.replica_state.replica_id) < 0:
        return _Rights.AS_ASKED
    return _Rights.ALL if may_in_cluster(context, Operation.CLUSTER_ACTION) else _Rights.NONE


class _Fetch:
    """One request that may have to look more than once; with a turn if it belongs to a session."""

    __slots__ = (
        "_context",
        "_has_woken",
        "_is_looking",
        "_logs",
        "_parked",
        "_request",
        "_rights",
        "_turn",
        "_watched",
        "later",
    )

    def __init__(self, request: FetchRequest, context: RequestContext[FetchParts], turn: Turn | None) -> None:
        self._request = request
        self._context = context
        self._turn = turn
        self._rights = _rights_of(request, context) if context.broker.authorizer.is_on else _Rights.ALL
        self._logs: list[PartitionLog] = []  # those that the latest look could read
        self._watched: list[PartitionLog] = []
        self._parked: Parked[None] | None = None
        self._has_woken = False
        self._is_looking = False  # in stretches
        self.later: Later[FetchResponse] = Later()

    def begin(self) -> FetchResponse | Later[FetchResponse]:
        """The answer, if one look is enough; else `later` has it."""
        if self._is_wide():
            self.later.is_large = True
            self._look_in_stretches(self._looked_first)
            return self.later
        look = self.look()
        if self._may_answer(look):
            answer = look.answer(self._context)
            if self._turn is None:
                return answer
            if not isinstance(answer, Later):
                return self._turn.finish(answer)
            self._answer(answer)
        elif not self.wait():
            self._answer_throttled(look)
        return self.later

    def look(self) -> _Look:
        """Read every partition as far as the limits allow."""
        look, bytes_left = self._new_look()
        for topic in self._topics():
            entries: list[PartitionData] = []
            look.response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, entries))
            self._look_at(topic, topic.partitions, entries, look, bytes_left)
        if self._turn is not None:
            self._turn.looked(look.response)
        return look

    def wait(self) -> bool:
        """Park until data arrives in one of the partitions or the time is over. False where too many wait already."""
        broker = self._context.broker
        wait_ms = min(self._request.max_wait_ms, broker.settings.fetch_wait_ms_max)
        try:
            self._parked = broker.fetches.park(
                self._context.session.id,
                self._woken,
                deadline_ms=broker.clock.monotonic_ms() + wait_ms,
                owner=self._context.session.owner,
            )
        except LimitExceeded:
            return False
        if self._turn is None or not self._turn.wait(self._data_arrived):
            self._watched = list(self._logs)
            for log in self._watched:
                log.watch(self._data_arrived)
        return True

    def _is_wide(self) -> bool:
        """True if the request may look at so many partitions that it must be done in stretches."""
        if self._turn is not None and self._turn.due_partitions > WHOLE_PARTITIONS_MAX:
            return True
        count = 0
        for topic in self._request.topics:
            count += len(topic.partitions)
        return count > WHOLE_PARTITIONS_MAX

    def _may_answer(self, look: _Look) -> bool:
        """Whether there is enough, or no use or no leave to wait for more."""
        request = self._request
        return look.is_enough(request.min_bytes) or request.max_wait_ms <= 0 or self._is_hopeless()

    def _topics(self) -> Sequence[FetchTopic]:
        return self._request.topics if self._turn is None else self._turn.topics()

    def _new_look(self) -> tuple[_Look, int]:
        """A look to be filled, and how many bytes it may find."""
        broker = self._context.broker
        self._logs.clear()
        fetch_max_bytes = TIGHT_BYTES if broker.memory.is_tight else broker.settings.fetch_max_bytes
        return _Look(broker.cold_reads.bytes_max), min(self._request.max_bytes, fetch_max_bytes)

    def _look_at(
        self,
        topic: FetchTopic,
        partitions: Sequence[FetchPartition],
        entries: list[PartitionData],
        look: _Look,
        bytes_left: int,
    ) -> None:
        """Read partitions of one topic."""
        for asked in partitions:
            data = PartitionData(asked.partition)
            entries.append(data)
            try:
                self._read(topic, asked, data, bytes_left - look.bytes_found, look)
            except Refused as refused:
                _put_error(data, refused)
                if refused.code not in _NOT_THERE:
                    look.has_error = True

    def _look_in_stretches(self, then: Callable[[_Look, bool], None]) -> None:
        """Look without holding the loop; `then` gets what was found, and whether it is up to date.

        Partitions that were looked at first may have moved since. Of a look that is out of date a session is not told:
        what it puts aside must have no news.
        """
        context, turn = self._context, self._turn
        look, bytes_left = self._new_look()
        is_committed = self._request.isolation_level == READ_COMMITTED
        ends: list[int] = []  # of `self._logs`, when they were read
        self._is_looking = True

        def end_of(log: PartitionLog) -> int:
            return log.last_stable_offset if is_committed else log.high_watermark

        def steps() -> Iterator[None]:
            for topic in self._topics():
                entries: list[PartitionData] = []
                look.response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, entries))
                for at in range(0, len(topic.partitions), PIECE_PARTITIONS):
                    piece = topic.partitions[at : at + PIECE_PARTITIONS]
                    self._look_at(topic, piece, entries, look, bytes_left)
                    ends.extend(map(end_of, self._logs[len(ends) :]))
                    yield

        def looked(error: HutongError | None) -> None:
            self._is_looking = False
            if error is not None:
                self._end_wait()
                if not context.session.owner.has_ended:
                    self._answer_throttled(look)
                return
            is_current = all(end_of(log) == end for log, end in zip(self._logs, ends, strict=True))
            if is_current and turn is not None:
                turn.looked(look.response)
            then(look, is_current)

        context.broker.long_requests.in_stretches(context.session, steps(), looked)

    def _looked_first(self, look: _Look, is_current: bool) -> None:
        if self._may_answer(look):
            self._answer(look.answer(self._context))
        elif not self.wait():
            self._answer_throttled(look)
        elif not is_current:
            self._look_again()

    def _look_again(self) -> None:
        self._look_in_stretches(self._looked_again)

    def _looked_again(self, look: _Look, is_current: bool) -> None:
        """Answer with what was found, unless there is time to wait for more."""
        parked = self._parked
        assert parked is not None, "a fetch looks again while it waits, or when it has waited"
        if parked.is_waiting and not look.is_enough(self._request.min_bytes) and not self._is_hopeless():
            if not is_current:
                self._look_again()
            elif self._turn is not None:
                self._turn.wait(self._data_arrived)
            return
        self._end_wait()
        self._answer(look.answer(self._context))

    def _end_wait(self) -> None:
        """Watch no more, if the request waits; the caller answers."""
        if self._parked is not None and self._parked.is_waiting:
            self._is_looking = True  # so that `_woken` leaves the answer to the look that has just ended
            self._parked.resume(None)
            self._is_looking = False

    def _read(
        self, topic: FetchTopic, asked: FetchPartition, data: PartitionData, bytes_left: int, look: _Look
    ) -> None:
        partition = self._find(topic, asked)
        log = partition.log
        self._logs.append(log)
        if asked.last_fetched_epoch >= 0 and _diverges(asked, log, data):
            look.has_error = True  # which is told at once
            return
        stable_offset = log.last_stable_offset
        is_committed = self._request.isolation_level == READ_COMMITTED
        found = log.read(
            asked.fetch_offset,
            max(0, min(asked.partition_max_bytes, bytes_left)),
            at_least_one=look.bytes_found == 0,
            up_to=stable_offset if is_committed else None,
            disk_bytes_max=look.disk_bytes_max,
        )
        data.high_watermark, data.last_stable_offset = log.high_watermark, stable_offset
        data.log_start_offset = log.start_offset
        data.aborted_transactions = rows = None
        if is_committed:
            data.aborted_transactions = []
            if log.transactions is not None and log.transactions.aborted.reaches(asked.fetch_offset):
                rows = log.transactions.aborted.rows()  # those that the batches were found with
        if isinstance(found, DiskRead):
            data.records = []
            if look.cold_bytes >= self._context.broker.settings.fetch_cold_bytes_max:
                return  # the client asks again, for this partition before those that it gets now
            look.cold.append((partition, asked.fetch_offset, found, data, rows))
            look.cold_bytes += found.size
        else:
            data.records = found.buffers
            if found.size:
                look.hot.append((log, found.size))
            if rows is not None:
                _put_aborted(data, rows, asked.fetch_offset, found.buffers)
        look.bytes_found += found.size

    def _find(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        topics = self._context.broker.topics
        if self._context.api_version >= IDS_FROM_VERSION:
            known = topics.by_id(topic.topic_id)
            if known is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            known = topics.get(topic.topic)
        if self._rights is not _Rights.ALL:
            self._check_rights(topic.topic if known is None else known.name)
        partition = known.partition(asked.partition) if known is not None else None
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.offline is not None:
            partition.check_online()
        check_leader_epoch(asked.current_leader_epoch)
        return partition

    def _check_rights(self, name: str) -> None:
        if self._rights is _Rights.NONE or not may(self._context, Operation.READ, ResourceType.TOPIC, name):
            raise refusal(ResourceType.TOPIC)

    def _is_hopeless(self) -> bool:
        """Whether there is nothing to wait for: none of the partitions exists."""
        return not self._logs and (self._turn is None or not self._turn.idle_partitions)

    def _data_arrived(self) -> None:
        if self._parked is None or not self._parked.is_waiting or self._is_looking:
            return
        if self._has_woken or self.later.is_large:
            # Each partition that a flush moved calls once. Only the first call looks at once: the look of all that
            # follow is one, in a later loop iteration.
            self._look_again()
            return
        self._has_woken = True
        if self.look().is_enough(self._request.min_bytes) or self._is_hopeless():
            self._parked.resume(None)
        elif self._turn is not None:
            self._turn.wait(self._data_arrived)

    def _woken(self, outcome: HutongError | None) -> None:
        for log in self._watched:
            log.unwatch(self._data_arrived)
        if self._turn is not None:
            self._turn.wait_no_more(self._data_arrived)
        if isinstance(outcome, OwnerGone) and self._context.session.owner.has_ended:
            return  # nobody is left to answer
        if self._is_looking:
            return  # that look answers when it has come to its end
        if self.later.is_large:
            self._look_again()
        else:
            self._answer(self.look().answer(self._context))

    def _answer_throttled(self, look: _Look) -> None:
        """So many fetches wait that this one cannot: it is answered, and its client comes back after a pause."""
        look.response.throttle_time_ms = self._context.broker.settings.fetch_throttle_ms
        self._answer(look.answer(self._context))

    def _answer(self, answer: FetchResponse | Later[FetchResponse]) -> None:
        """Complete `later`, with what the session makes of the answer."""
        if isinstance(answer, Later):
            answer.then(self._answer)
        else:
            self.later.complete(answer if self._turn is None else self._turn.finish(answer))


def _count(context: RequestContext[FetchParts], log: PartitionLog, size: int) -> None:
    """A reader gets so much of a log."""
    log.served_bytes += size
    context.broker.served_bytes_total += size


def check_leader_epoch(asked: int) -> None:
    """KIP-320: a client that knows another leader epoch than ours is behind, or ahead of us."""
    if asked < 0 or asked == LEADER_EPOCH:
        return
    raise Refused(ErrorCode.FENCED_LEADER_EPOCH if asked < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH)


def _diverges(asked: FetchPartition, log: PartitionLog, data: PartitionData) -> bool:
    """KIP-595: whether the reader's last epoch ended before the offset it is at; `data` tells where, then."""
    if asked.last_fetched_epoch > LEADER_EPOCH:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, "The end of the last fetched epoch is not known.")
    end_offset = log.high_watermark
    if asked.fetch_offset < log.start_offset or asked.fetch_offset <= end_offset:
        return False
    data.high_watermark, data.last_stable_offset = end_offset, log.last_stable_offset
    data.log_start_offset = log.start_offset
    data.diverging_epoch = EpochEndOffset(LEADER_EPOCH, end_offset)
    data.aborted_transactions = None
    data.records = []
    return True


def _put_aborted(data: PartitionData, rows: array[int], offset: int, buffers: list[memoryview]) -> None:
    """What a committed reader needs to leave out of these batches."""
    found = aborted_between(rows, offset, end_offset_of(buffers))
    data.aborted_transactions = [AbortedTransaction(producer_id, first_offset) for producer_id, first_offset in found]


def _put_error(data: PartitionData, error: HutongError) -> None:
    data.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptData) else error_code_of(error)
    data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
    data.aborted_transactions = [] if data.error_code in _NOT_THERE else None
    data.records = []
