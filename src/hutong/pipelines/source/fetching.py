"""Reads a range of one partition as record sets, one fetch ahead of the caller.

As soon as a record set is indexed the offset after it is known, so the next fetch is sent before the caller has decoded
this one: the broker reads while we decode, and the next answer waits in the socket. What fails in a way that may pass
resumes at the offset reached.

Knows nothing of records inside batches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.client.cluster import EARLIEST, LATEST, Cluster, TopicPartition, raise_refusal
from hutong.pipelines.client.connection import BrokerConnection
from hutong.pipelines.errors import DataLost, Unavailable
from hutong.wire.kafka.apis.k01_fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:  # it brings numba, which the driver's planning does without
    from hutong.pipelines.source.decode.index import BatchIndex

EMPTY_FETCHES_MAX = 3
"""After this many empty answers in a row below the high watermark, nothing is left there: compaction took it."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`fetch_bytes` is asked for at a time; a batch that is larger comes whole."""

    fetch_bytes: int = 2 * 2**20
    wait_ms_max: int = 500
    fail_on_data_loss: bool = True


class RecordSet(NamedTuple):
    """Whole batches of one fetch, and the transactions that were aborted there. `records` holds until the next one."""

    records: memoryview
    batches: "BatchIndex"
    aborted: Sequence[AbortedTransaction]


class PartitionReader:
    """The record sets that cover `first` to `end` (exclusive) of one partition. May hold more than asked for."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        first: int,
        end: int,
        settings: FetchSettings,
        index_batches: Callable[[memoryview], "BatchIndex"],
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._position = first
        self._end = end
        self._settings = settings
        self._index_batches = index_batches
        self._ahead: BrokerConnection | None = None
        self._empty_fetches = 0

    def __iter__(self) -> Iterator[RecordSet]:
        """Raises DataLost, ProtocolError, or Unavailable and Refused once trying again is over."""
        try:
            while self._position < self._end:
                answer = self._cluster.retrying(self._fetch)
                if answer is None:
                    continue
                records = _contiguous(answer)
                batches = self._index_batches(records)
                # A fetch always holds one whole batch, even above the limit (KIP-74).
                if not batches.count:
                    raise ProtocolError(
                        f"the broker sent less than one whole batch of {self._partition} for offset {self._position}"
                    )
                # Without this check such a broker would keep the task reading for ever.
                if batches.next_offset <= self._position:
                    raise ProtocolError(f"the broker sent batches of {self._partition} older than asked for")
                self._position = batches.next_offset
                self._send_ahead()
                yield RecordSet(records, batches, answer.aborted_transactions or ())
        finally:
            if self._ahead is not None:
                self._ahead.close()  # its answer will never be read

    def _fetch(self) -> PartitionData | None:
        """The answer for the present position, or None when there was none and the position may have moved."""
        connection, self._ahead = self._ahead, None
        if connection is None:
            try:
                connection = self._cluster.leader(self._partition)
            except Refused as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self._skip_deleted()
                return None
            connection.send(self._request())
        answer = self._read(connection.receive())
        # Retention or DeleteRecords removed the position, or an unclean election cut the log.
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._skip_lost()
            return None
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._skip_deleted()
            return None
        raise_refusal(answer.error_code, f"{self._partition} cannot be read at offset {self._position}")
        if answer.records:
            self._empty_fetches = 0
            return answer
        self._note_empty(answer)
        return None

    def _send_ahead(self) -> None:
        """Send the next request early. A failure is ignored: the next `_fetch` sends it again."""
        # Nothing more is wanted of this partition.
        if self._position >= self._end:
            return
        try:
            connection = self._cluster.leader(self._partition)
            connection.send(self._request())
        except (Unavailable, Refused):
            return
        self._ahead = connection

    def _request(self) -> FetchRequest:
        size = self._settings.fetch_bytes
        partition = FetchPartition(self._partition.partition, fetch_offset=self._position, partition_max_bytes=size)
        return FetchRequest(
            max_wait_ms=self._settings.wait_ms_max,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(self._cluster.settings.read_committed),
            topics=[FetchTopic(self._partition.topic, partitions=[partition])],
        )

    def _read(self, response: FetchResponse) -> PartitionData:
        raise_refusal(response.error_code, f"{self._partition} cannot be read")
        for topic in response.responses:
            for answer in topic.partitions:
                if (topic.topic, answer.partition_index) == self._partition:
                    return answer
        raise ProtocolError(f"the broker did not answer for {self._partition}")

    def _note_empty(self, answer: PartitionData) -> None:
        """Nothing came in time: wait on, unless the broker can read up to the end and found nothing several times."""
        readable = answer.last_stable_offset if self._cluster.settings.read_committed else answer.high_watermark
        # The plan saw a later end: the broker asked is behind, or the log was cut.
        if readable < self._end:
            raise Refused(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self._partition} ends at offset {readable}, before the planned end {self._end}",
            )
        self._empty_fetches += 1
        if self._empty_fetches >= EMPTY_FETCHES_MAX:
            self._position = self._end

    def _skip_deleted(self) -> None:
        """The broker asked knows no such partition: another may lead it now, or the topic is gone."""
        partition = self._partition
        topic = self._cluster.topics([partition.topic]).get(partition.topic)
        # Still in the metadata, so another broker leads it now.
        if topic is not None and partition.partition in topic.partitions:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} moved to another broker while it was read")
        if self._settings.fail_on_data_loss:
            raise data_lost(f"{partition} was deleted while it was read, at offset {self._position}")
        self._position = self._end

    def _skip_lost(self) -> None:
        """The position is outside the log: fail, or continue with what is left."""
        if self._settings.fail_on_data_loss:
            raise data_lost(f"offset {self._position} of {self._partition} is gone")
        earliest = self._cluster.offsets({self._partition: EARLIEST})[self._partition].offset
        latest = self._cluster.offsets({self._partition: LATEST})[self._partition].offset
        self._position = self._end if self._position > latest else max(self._position, earliest)


def data_lost(what: str) -> DataLost:
    """The error with the advice that users of Spark's own Kafka source know."""
    return DataLost(
        f"Some data may have been lost because it is not available any more: {what}. It was either aged out, or the "
        "topic was deleted before all its data was processed. If you do not want the query to fail on such cases, set "
        "the source option failOnDataLoss to false."
    )


def _contiguous(answer: PartitionData) -> memoryview:
    records = answer.records
    assert isinstance(records, memoryview)  # what a decoder gives; lists of buffers are for encoding
    return records
