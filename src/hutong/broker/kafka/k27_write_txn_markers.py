"""WriteTxnMarkers (key 27, versions 1-2): end a producer's transaction in single partitions.

This node's own coordinator needs no request for that; it is there for administrators who abort a transaction that hangs
(`kafka-transactions abort`). Per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH,
TRANSACTION_COORDINATOR_FENCED, NOT_LEADER_OR_FOLLOWER. The client needs ALTER of the cluster, or CLUSTER_ACTION as
brokers have it.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may_in_cluster
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation
from hutong.transactions.messages import ProducerIdentity
from hutong.wire.kafka.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 27


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext[TransactionParts]
) -> WriteTxnMarkersResponse | Pending[WriteTxnMarkersResponse]:
    pending = PendingInParts(WriteTxnMarkersResponse())
    is_permitted = may_in_cluster(context, Operation.ALTER, quietly=True) or may_in_cluster(
        context, Operation.CLUSTER_ACTION
    )
    for marker in request.markers:
        answer = WritableTxnMarkerResult(marker.producer_id)
        pending.response.markers.append(answer)
        for topic in marker.topics:
            results = [PartitionErrorCode(index) for index in topic.partition_indexes]
            answer.topics.append(WritableTxnMarkerTopicResult(topic.name, results))
            for result in results:
                if not is_permitted:
                    result.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    continue
                _write(marker, topic.name, result, pending, context)
    return pending.answer()


def _write(
    marker: WritableTxnMarker,
    topic: str,
    result: PartitionErrorCode,
    pending: PendingInParts[WriteTxnMarkersResponse],
    context: RequestContext[TransactionParts],
) -> None:
    def written(error: HutongError | None) -> None:
        if isinstance(error, Refused):
            result.error_code = error.code
        elif error is not None:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        pending.settle_part()

    # No producer has these, so the marker would end a transaction that cannot exist.
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        result.error_code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return
    partition = context.broker.topics.partition(topic, result.partition_index)
    if partition is not None and not partition.standing.is_led_here:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return
    pending.expect_part()
    context.broker.transaction_markers.write_one(
        ProducerIdentity(marker.producer_id, marker.producer_epoch),
        (topic, result.partition_index),
        written,
        is_commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
    )
