"""Delivers record batches: idempotent (KIP-98), one request in flight per broker, retried until acknowledged.

While a request is in flight the caller encodes the next batches. At most one batch of a partition is in flight, so the
order holds. Each batch has a sequence number, so that a broker recognises a batch whose acknowledgement was lost.

Within a transaction the records count once the driver commits it. Without one, delivery is at least once: a Spark task
that fails and runs again writes its rows again, under another identity.
"""

from collections import deque
from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError, Refused, UsageError
from hutong.pipelines.client.cluster import Cluster, TopicPartition, raise_refusal
from hutong.pipelines.client.connection import BrokerConnection
from hutong.pipelines.client.identities import Producer
from hutong.pipelines.client.transactions import OpenTransaction
from hutong.pipelines.errors import Unavailable, is_retriable
from hutong.pipelines.sink.encode.encoder import EncodedRecords, seal
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from hutong.wire.kafka.error_codes import ErrorCode

QUEUED_BYTES_MAX = 8 * 2**20
"""Encoded batches that wait or are in flight; `send` waits for acknowledgements above it."""
ACKS_ALL = -1
SEQUENCE_MASK = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class _QueuedBatch:
    partition: TopicPartition
    content: memoryview


class BatchProducer:
    """Sends batches under one producer identity. After any error it must not be used again."""

    def __init__(
        self, cluster: Cluster, clock: Clock, timeout_ms: int, transaction: OpenTransaction | None = None
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._transaction = transaction
        self._identity: Producer | None = transaction.identity.producer if transaction is not None else None
        self._next_sequence: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[_QueuedBatch]] = {}  # no empty queues
        self._queued_bytes = 0  # of all batches in the queues
        self._in_flight: dict[BrokerConnection, list[_QueuedBatch]] = {}  # the heads of queues

    def send(self, records: EncodedRecords) -> None:
        """Queue a batch for delivery. Raises the error of an earlier batch that could not be delivered."""
        if self._identity is None:
            self._identity = self._cluster.new_producer()
        sequence = self._next_sequence.get(records.partition, 0)
        self._next_sequence[records.partition] = (sequence + records.record_count) & SEQUENCE_MASK
        in_transaction = self._transaction is not None
        content = seal(records, self._identity, sequence, self._clock.wall_ms(), transactional=in_transaction)
        self._queues.setdefault(records.partition, deque()).append(_QueuedBatch(records.partition, content))
        self._queued_bytes += len(content)
        while self._queued_bytes > QUEUED_BYTES_MAX or self._is_answered:
            self._cluster.retrying(self._exchange)
        # With nothing in flight the brokers would wait for us, so the heads of the queues leave at once.
        if not self._in_flight:
            self._send_quietly()

    @property
    def _is_answered(self) -> bool:
        """Return True if the brokers wait for this task."""
        return bool(self._in_flight) and all(connection.has_answer for connection in self._in_flight)

    def flush(self) -> None:
        """Wait until every batch is acknowledged."""
        while self._queues:
            self._cluster.retrying(self._exchange)

    def _send_quietly(self) -> None:
        """Send without raising: `_exchange` sends again after a failure."""
        try:
            self._send_heads()
        except (Unavailable, Refused) as error:
            if not is_retriable(error):
                raise

    def _exchange(self) -> None:
        """Send the first batch of each partition, unless done already, and take the answers."""
        if not self._in_flight:
            self._send_heads()
        failure: Unavailable | Refused | None = None
        while self._in_flight:
            connection, batches = self._in_flight.popitem()
            try:
                self._take_answers(connection.receive(), batches)
            except (Unavailable, Refused) as error:
                failure = error
        if failure is not None:
            raise failure

    def _send_heads(self) -> None:
        if self._transaction is not None:
            self._transaction.add(self._queues)
        heads: dict[BrokerConnection, list[_QueuedBatch]] = {}
        for partition, queue in self._queues.items():
            heads.setdefault(self._cluster.leader(partition), []).append(queue[0])
        for connection, batches in heads.items():
            connection.send(self._request(batches), self._version)
            self._in_flight[connection] = batches

    def _request(self, batches: list[_QueuedBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, index = batch.partition
            topic = topics.setdefault(name, TopicProduceData(name))
            topic.partition_data.append(PartitionProduceData(index, batch.content))
        owner = None if self._transaction is None else self._transaction.identity.transactional_id
        return ProduceRequest(owner, ACKS_ALL, self._timeout_ms, list(topics.values()))

    @property
    def _version(self) -> int | None:
        return None if self._transaction is None else self._transaction.produce_version

    def _take_answers(self, response: ProduceResponse, batches: list[_QueuedBatch]) -> None:
        """Remove what was acknowledged; raises the refusal of one that was not."""
        codes = {
            TopicPartition(topic.name, answer.index): answer.error_code
            for topic in response.responses
            for answer in topic.partition_responses
        }
        failure: Refused | None = None
        for batch in batches:
            if batch.partition not in codes:
                raise ProtocolError(f"the broker did not answer for {batch.partition}")
            try:
                _raise_refusal(codes[batch.partition], batch.partition)
            except Refused as error:
                if failure is None or is_retriable(failure):  # one that will not pass comes first
                    failure = error
            else:
                self._forget(batch)
        if failure is not None:
            raise failure

    def _forget(self, batch: _QueuedBatch) -> None:
        queue = self._queues[batch.partition]
        assert queue.popleft() is batch
        self._queued_bytes -= len(batch.content)
        if not queue:
            del self._queues[batch.partition]


def _raise_refusal(code: int, partition: TopicPartition) -> None:
    what = f"records for {partition} were not taken"
    if code == ErrorCode.INVALID_TIMESTAMP:
        raise UsageError(
            f"{what}: the column timestamp holds a time that topic {partition.topic} refuses (its "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms say how far from now); correct the "
            "column, or drop it so that records get the time of writing"
        )
    if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        raise_refusal(code, what)
