"""ReplicaDigests (key 10001, version 0): what a node's replica of a partition holds on its disk, as digests.

Hutong's own API, which ApiVersions does not list: only `hutong cluster verify` asks for it. Any node takes the question
and asks the node that it is for. One question reads `ANSWER_BYTES_MAX` bytes at most, on a worker.
The client needs DESCRIBE of the cluster.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.partition import Partition
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.journal.read.digests import Digests
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k10001_replica_digests import ReplicaDigestsRequest, ReplicaDigestsResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 10_001
VERSION: Final = 0
ANSWER_BYTES_MAX: Final = 512 * 1024
RECORD_BYTES_MAX: Final = 64 * 1024  # of batches that are unpacked: 1 to 2 ms for each 64 KiB of small records
ASKS_FOR_OFFSETS: Final = -1  # as the limit


def handle(
    request: ReplicaDigestsRequest, context: RequestContext[TopicParts]
) -> ReplicaDigestsResponse | Pending[ReplicaDigestsResponse]:
    if not may_in_cluster(context, Operation.DESCRIBE):
        denied = refusal(ResourceType.CLUSTER)
        return _refused(denied.code, denied.message)
    broker = context.broker
    if request.node_id != broker.identity.node_id:
        return _ask_node(request, broker)
    partition = broker.topics.partition(request.topic, request.partition)
    if partition is None:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node does not know the partition.")
    if partition.offline is not None:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR, str(partition.offline))
    if request.limit_offset == ASKS_FOR_OFFSETS:
        return _offsets(partition)
    return _read(request, partition)


def _ask_node(
    request: ReplicaDigestsRequest, broker: TopicParts
) -> ReplicaDigestsResponse | Pending[ReplicaDigestsResponse]:
    if broker.cluster.is_alone:
        return _refused(ErrorCode.BROKER_ID_NOT_REGISTERED, "This node is alone.")
    from hutong.broker.coordinators.other_nodes import ask_kafka  # late: a node alone never asks

    pending: Pending[ReplicaDigestsResponse] = Pending()

    def answered(outcome: ReplicaDigestsResponse | HutongError) -> None:
        pending.complete(_failed(outcome) if isinstance(outcome, HutongError) else outcome)

    ask_kafka(broker.cluster, request.node_id, request, VERSION, answered)
    return pending


def _read(request: ReplicaDigestsRequest, partition: Partition) -> Pending[ReplicaDigestsResponse]:
    pending: Pending[ReplicaDigestsResponse] = Pending()
    log = partition.log

    def read(outcome: Digests | HutongError) -> None:
        if isinstance(outcome, HutongError):
            pending.complete(_failed(outcome))
            return
        response = _offsets(partition)
        response.next_offset, response.read_bytes, response.entries = outcome
        pending.complete(response)

    bytes_max = RECORD_BYTES_MAX if request.by_record else ANSWER_BYTES_MAX
    limit = min(request.limit_offset, log.high_watermark)
    max_bytes = max(1, min(request.max_bytes, bytes_max))
    log.digests(max(request.offset, log.start_offset), limit, max_bytes, read, by_record=request.by_record)
    return pending


def _offsets(partition: Partition) -> ReplicaDigestsResponse:
    log = partition.log
    # Cleaning writes logs again that are not compacted, too; those lose nothing by it.
    may_lack = partition.config.compacted or log.clean_offset > 0
    return ReplicaDigestsResponse(
        error_message=None,
        group=partition.group,
        start_offset=log.start_offset,
        high_watermark=log.high_watermark,
        cleaned_offset=log.rewritten_offset if may_lack else log.start_offset,
    )


def _failed(error: HutongError) -> ReplicaDigestsResponse:
    response = ReplicaDigestsResponse(error_message=None)
    put_error(response, error)
    response.error_message = response.error_message or str(error)
    return response


def _refused(code: int, message: str) -> ReplicaDigestsResponse:
    return ReplicaDigestsResponse(error_code=code, error_message=message)
