"""Outcomes of batches in the response to a Produce: offsets, or the error as its producer should see it.

Decides nothing of what is appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.responses import put_error
from hutong.broker.produce.record_checks import RefusedRecords
from hutong.foundation.errors import Expired, HutongError, Refused
from hutong.journal.append.producers import UNKNOWN_OFFSET
from hutong.wire.kafka.apis.k00_produce import BatchIndexAndErrorMessage
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition
    from hutong.journal.append.log_appends import Appended
    from hutong.journal.log import PartitionLog
    from hutong.wire.kafka.apis.k00_produce import PartitionProduceResponse

_WITHOUT_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


def why_refused(partition: Partition, refused: HutongError) -> HutongError:
    """The reason that a batch is not appended, as its producer should see it.

    Of batches that were sent together the first may be refused before this node leads, and the next come after. Taken
    for out of order, it would have librdkafka begin a new epoch, and send again under it what an earlier leader has
    stored already. So all of them are sent again in their order (KIP-98: one that is stored is recognized).
    """
    is_behind_another = isinstance(refused, Refused) and refused.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if is_behind_another and partition.standing.has_refused_lately:
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"A batch before it was refused: {refused}")
    return refused


def why_unsafe(partition: Partition, error: HutongError) -> HutongError:
    """The reason that a batch is not acknowledged, as its producer should see it."""
    # The node has stepped down meanwhile: the producer sends again to the next leader, as after any lost answer.
    if not partition.standing.is_led_here and not isinstance(error, Expired):
        partition.standing.note_refusal()
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Another node leads this partition: {error}")
    return error


def put_outcome(result: PartitionProduceResponse, outcome: Appended | HutongError) -> None:
    """Fill in the outcome of one partition."""
    # The records are in the journal already; idempotent producers send them again without a duplicate (KIP-98).
    if isinstance(outcome, Expired):
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        result.error_message = "Stored, but not safe in time; whether it becomes durable is open."
        result.base_offset = -1
    elif isinstance(outcome, HutongError):
        put_error(result, outcome)
        result.base_offset = -1
        # KIP-467: a client may drop the records at fault and send the others again.
        if isinstance(outcome, RefusedRecords):
            result.record_errors = [BatchIndexAndErrorMessage(index, outcome.message) for index in outcome.indexes]
    else:
        # The records are stored. Java, librdkafka and franz-go take this code for a success without an offset.
        if outcome.base_offset == UNKNOWN_OFFSET:
            result.error_code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            result.error_message = "Stored before; newer batches of the producer have displaced its offset."
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.append_time_ms
        result.log_start_offset = outcome.start_offset


def put_start(result: PartitionProduceResponse, log: PartitionLog) -> None:
    """Put the log's start into a refusal, as Kafka does: the log may have moved past the client's offset."""
    # Kafka leaves the start out where the log was not asked.
    if result.error_code and result.error_code not in _WITHOUT_START:
        result.log_start_offset = log.start_offset
