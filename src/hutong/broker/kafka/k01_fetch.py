"""Fetch (key 1, versions 4-18): read record batches from offsets on, waiting for more where there is too little.

Rules kept: an offset inside a batch returns the whole batch; the first partition that has data returns at least one
batch even over the limits (KIP-74); an error, or enough bytes, is answered at once, everything else waits for data or
`max_wait_ms`. From 7 a client may ask for an incremental session (KIP-227): session id 0 in the answer declines, and
the client goes on with full requests. From 13 topics come by id (KIP-516).

Strategy: look at all partitions; where that is enough, answer. Otherwise park one continuation and watch every
partition; whatever wakes it makes it look again. Data that is no longer in memory is read in fair turns
(`broker/cold_reads.py`) before the answer leaves.

A damaged batch is answered with CORRUPT_MESSAGE, by which Java's and librdkafka's consumers tell their application
where they stand, so that it can decide to go on behind; KAFKA_STORAGE_ERROR would make them look for another leader,
silently and for ever. A reader that the node has no room for gets no records, no error and a throttle time (KIP-219).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, error_code_of
from hutong.broker.partition import LEADER_EPOCH
from hutong.foundation.errors import CorruptData, Expired, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.journal.log import ColdRead
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.partition import Partition
    from hutong.foundation.parking import Parked
    from hutong.journal.log import PartitionLog

API_KEY = 1
_IDS_FROM_VERSION: Final = 13  # KIP-516
_NO_SESSION: Final = 0
_FULL_REQUEST_EPOCHS: Final = (-1, 0)


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Later[FetchResponse]:
    if request.session_id != _NO_SESSION or request.session_epoch not in _FULL_REQUEST_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    fetch = _Fetch(request, context)
    look = fetch.look()
    if look.is_enough(request.min_bytes) or request.max_wait_ms <= 0:
        return look.answer(context)
    fetch.wait()
    return fetch.later


class _Look:
    """What one look at all partitions found."""

    __slots__ = ("bytes_found", "cold", "cold_bytes", "cold_bytes_max", "has_error", "response")

    def __init__(self, cold_bytes_max: int) -> None:
        self.response = FetchResponse()
        self.bytes_found = 0
        self.has_error = False
        self.cold: list[tuple[Partition, int, ColdRead[list[memoryview]], PartitionData]] = []  # with the offset asked
        self.cold_bytes = 0
        self.cold_bytes_max = cold_bytes_max  # of one partition

    def is_enough(self, min_bytes: int) -> bool:
        return self.has_error or self.bytes_found >= min_bytes

    def answer(self, context: RequestContext) -> FetchResponse | Later[FetchResponse]:
        """The response, after what is no longer in memory was read from disk."""
        if not self.cold:
            return self.response
        gather = Gather(self.response)

        def settle(data: PartitionData, outcome: list[memoryview] | HutongError) -> None:
            if isinstance(outcome, Expired | LimitExceeded):
                self.response.throttle_time_ms = context.broker.settings.fetch_throttle_ms
            elif isinstance(outcome, HutongError):
                _put_error(data, outcome)
            else:
                data.records = outcome
            gather.settled()

        for partition, offset, cold, data in self.cold:
            gather.expect()
            then = partial(settle, data)
            context.broker.cold_reads.read(cold, partition, offset, context.peer, then)
        return gather.returned()


class _Fetch:
    """One request that may have to look more than once."""

    __slots__ = ("_context", "_logs", "_parked", "_request", "_watched", "later")

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._logs: list[PartitionLog] = []  # those that the latest look could read
        self._watched: list[PartitionLog] = []
        self._parked: Parked[None] | None = None
        self.later: Later[FetchResponse] = Later()

    def look(self) -> _Look:
        """Read every partition as far as the limits allow."""
        look = _Look(self._context.broker.cold_reads.bytes_max)
        self._logs.clear()
        bytes_left = min(self._request.max_bytes, self._context.broker.settings.fetch_max_bytes)
        for topic in self._request.topics:
            entries: list[PartitionData] = []
            look.response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, entries))
            for asked in topic.partitions:
                data = PartitionData(asked.partition)
                entries.append(data)
                try:
                    self._read(topic, asked, data, bytes_left - look.bytes_found, look)
                except Refused as refused:
                    _put_error(data, refused)
                    look.has_error = True
        return look

    def wait(self) -> None:
        """Park until data arrives in one of the partitions or the time is over."""
        broker = self._context.broker
        wait_ms = min(self._request.max_wait_ms, broker.settings.fetch_wait_ms_max)
        self._parked = broker.fetches.park(
            self._context.peer.id,
            self._woken,
            deadline_ms=broker.clock.monotonic_ms() + wait_ms,
            owner=self._context.peer.owner,
        )
        self._watched = list(self._logs)
        for log in self._watched:
            log.watch(self._data_arrived)

    def _read(
        self, topic: FetchTopic, asked: FetchPartition, data: PartitionData, bytes_left: int, look: _Look
    ) -> None:
        partition = self._find(topic, asked)
        log = partition.log
        self._logs.append(log)
        found = log.read(
            asked.fetch_offset,
            max(0, min(asked.partition_max_bytes, bytes_left)),
            at_least_one=look.bytes_found == 0,
            cold_bytes_max=look.cold_bytes_max,
        )
        data.high_watermark = data.last_stable_offset = log.high_watermark
        data.log_start_offset = log.start_offset
        if isinstance(found, ColdRead):
            data.records = []
            if look.cold_bytes >= self._context.broker.settings.fetch_cold_bytes_max:
                return  # the client asks again, for this partition before those that it gets now
            look.cold.append((partition, asked.fetch_offset, found, data))
            look.cold_bytes += found.size
        else:
            data.records = found.buffers
        look.bytes_found += found.size

    def _find(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        topics = self._context.broker.topics
        if self._context.api_version >= _IDS_FROM_VERSION:
            known = topics.by_id(topic.topic_id)
            if known is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            known = topics.get(topic.topic)
        partition = known.partition(asked.partition) if known is not None else None
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_leader_epoch(asked.current_leader_epoch)
        return partition

    def _data_arrived(self) -> None:
        if self._parked is not None and self._parked.is_waiting and self.look().is_enough(self._request.min_bytes):
            self._parked.resume(None)

    def _woken(self, outcome: HutongError | None) -> None:
        for log in self._watched:
            log.unwatch(self._data_arrived)
        if isinstance(outcome, OwnerGone) and self._context.peer.owner.has_ended:
            return  # nobody is left to answer
        answer = self.look().answer(self._context)
        if isinstance(answer, Later):
            answer.then(self.later.complete)
        else:
            self.later.complete(answer)


def check_leader_epoch(asked: int) -> None:
    """KIP-320: a client that knows another leader epoch than ours is behind, or ahead of us."""
    if asked < 0 or asked == LEADER_EPOCH:
        return
    raise Refused(ErrorCode.FENCED_LEADER_EPOCH if asked < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH)


def _put_error(data: PartitionData, error: HutongError) -> None:
    data.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptData) else error_code_of(error)
    data.records = []
