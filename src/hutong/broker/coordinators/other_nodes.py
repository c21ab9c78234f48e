"""Transactions across nodes: markers for partitions that other nodes lead, and questions to a coordinator elsewhere.

Strategy: Kafka's own requests between brokers, WriteTxnMarkers and AddPartitionsToTxn from version 4 on (KIP-890), as
frames to the other node's handlers. What is not answered counts as failed, since both may be asked for again: a marker
that is written twice changes nothing for readers, and a partition that is added twice is added once.

Knows nothing of how nodes reach each other. A node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from hutong.wire.kafka.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.coordinators.transaction_gateway import TopicPartition, Verdicts
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.transactions.messages import ProducerIdentity

_MARKERS_VERSION: Final = 1
_ADDING_VERSION: Final = 5
_SIZE_BYTES: Final = 4
_CLIENT_ID: Final = "transactions"


def ask_kafka(cluster: ClusterView, node: int, request: Any, version: int, then: Continuation[Any]) -> None:
    """Have another node handle a request; `then` gets its response, or the error for which there is none."""
    frame = b"".join(encode_request_frame(request, version, 0, _CLIENT_ID))[_SIZE_BYTES:]
    api_key = message_info(type(request)).api_key

    def answered(outcome: bytes | HutongError) -> None:
        response: Any = outcome
        if not isinstance(outcome, HutongError):
            content = outcome[_SIZE_BYTES:]
            try:
                _, offset = decode_response_header(content, api_key, version)
                response = codecs.decode_response(api_key, version, content, offset)
            except ProtocolError as error:
                response = error
        then(response)

    cluster.ask_node(node, frame, answered)


class RemoteMarkers:
    """Writes markers to partitions that other nodes lead. Implements `RemoteMarkerPort`."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def write(
        self,
        node: int,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        then: Callable[[Mapping[TopicPartition, HutongError | None]], None],
        *,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        topics = [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in _by_topic(partitions)]
        marker = WritableTxnMarker(producer.producer_id, producer.producer_epoch, is_commit, topics, coordinator_epoch)

        def answered(outcome: WriteTxnMarkersResponse | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(dict.fromkeys(partitions, outcome))
                return
            codes = {
                (topic.name, result.partition_index): result.error_code
                for each in outcome.markers
                for topic in each.topics
                for result in topic.partitions
            }
            then({partition: _error_of(codes.get(partition)) for partition in partitions})

        ask_kafka(self._cluster, node, WriteTxnMarkersRequest([marker]), _MARKERS_VERSION, answered)


class RoutedGateway:
    """The question before a transaction's first batch in a partition, to its coordinator on any node.

    Implements `TransactionGateway`.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        may_add: bool,
        then: Callable[[Verdicts], None],
    ) -> None:
        broker = self._broker
        node = broker.cluster.coordinator_of(CoordinationKind.TRANSACTION, transactional_id)
        if node == broker.identity.node_id:
            broker.shard_of(transactional_id).transactions.admit(
                transactional_id, producer_id, producer_epoch, partitions, may_add=may_add, then=then
            )
            return
        if node == NO_LEADER:
            then(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in _by_topic(partitions)]
        asked = AddPartitionsToTxnTransaction(transactional_id, producer_id, producer_epoch, not may_add, topics)

        def answered(outcome: AddPartitionsToTxnResponse | HutongError) -> None:
            # An answer without these partitions, or none at all: the client asks again.
            verdicts = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if not isinstance(outcome, HutongError) and outcome.error_code == ErrorCode.NONE:
                verdicts |= {
                    (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
                    for each in outcome.results_by_transaction
                    for topic in each.topic_results
                    for result in topic.results_by_partition
                }
            then(verdicts)

        request = AddPartitionsToTxnRequest(transactions=[asked])
        ask_kafka(broker.cluster, node, request, _ADDING_VERSION, answered)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    ordered = sorted(partitions)
    return [(topic, [index for _, index in indexes]) for topic, indexes in groupby(ordered, key=itemgetter(0))]


def _error_of(code: int | None) -> HutongError | None:
    if code is None:
        return ProtocolError("the answer has no result for a marker")
    return None if code == ErrorCode.NONE else Refused(code)
