"""BATCH_ACK_MESSAGE (200151): acknowledge messages of several pops and queues at once.

Each pop and queue has an entry with a bit for each message. The answer comes when all are settled and on disk. As with
RocketMQ it has one code: that of the first entry that failed, and the others count all the same. In a cluster entries
of queues that another node leads are refused where the first one is not; their messages come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.broker.rocketmq.requests.pop.r200051_ack import code_of_settled, key_of
from hutong.broker.rocketmq.requests.pop.receipts import member_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.delivery.messages import Acknowledge, AcknowledgedBatch, Acknowledgement
from hutong.remoting.channels.answers import refusal
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.bodies import BatchAck, BatchAckRequest, decode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.groups.share.delivery.messages import Settled
    from hutong.groups.share.records import PartitionKey
    from hutong.remoting.channels.answers import Answer, ReadyAnswer

ENTRIES_MAX: Final = 1_000
BITS_BYTES_MAX: Final = (
    256  # of one entry: as many messages as a queue has in hand (`share.partition.max.record.locks`)
)


def handle(context: RocketContext) -> Answer:
    asked = decode_body(BatchAckRequest, context.command.body)
    if not 0 < len(asked.acks) <= ENTRIES_MAX:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"A batch of acknowledgements has 1 to {ENTRIES_MAX} entries.")
    for entry in asked.acks:
        _check(entry)
    batch = _Acknowledging(context)
    # Before anything is settled: where another node leads its queue, that gets the whole command.
    first = _key_of(context, asked.acks[0])
    for number, entry in enumerate(asked.acks):
        batch.settle(entry, first if number == 0 else None)
    batch.end()
    return batch.pending


class _Acknowledging:
    """The outcome of one request. `end` says that no more entries come."""

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self._left = 1
        self._refused: Command | None = None
        self.pending: Pending[ReadyAnswer] = Pending()

    def settle(self, entry: BatchAck, key: PartitionKey | None) -> None:
        self._left += 1
        try:
            key = key or _key_of(self._context, entry)
        except HutongError as error:
            self._settled(answer_of(error))
            return
        self._acknowledge(key, member_of(entry.reviveQueueId), [*_offsets(entry)])

    def end(self) -> None:
        self._settled(None)

    def _acknowledge(self, key: PartitionKey, member_id: str, offsets: Sequence[int]) -> None:
        def acknowledged(outcome: Settled) -> None:
            if outcome.error is ErrorCode.NONE:
                self._settled(None)
                return
            # One that is not held any more has nothing of its entry settled.
            if len(offsets) > 1:
                for offset in offsets:
                    self._left += 1
                    self._acknowledge(key, member_id, [offset])
                self._settled(None)
                return
            self._settled(refusal(code_of_settled(outcome), outcome.message or outcome.error.name))

        broker = self._context.parts.broker
        batches = [AcknowledgedBatch(offset, offset, [Acknowledgement.ACCEPT]) for offset in offsets]
        event = Acknowledge(member_id, broker.clock.monotonic_ms(), batches)
        broker.share_deliveries.acknowledge(key, event, acknowledged)

    def _settled(self, refused: Command | None) -> None:
        self._refused = self._refused or refused
        self._left -= 1
        if not self._left:
            self.pending.complete(self._refused or Command(ResponseCode.SUCCESS))


def _check(entry: BatchAck) -> None:
    if not 0 < len(entry.bits or b"") <= BITS_BYTES_MAX:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"An entry has 1 to {BITS_BYTES_MAX} bytes of bits.")
    if not 0 <= entry.startOffset < 1 << 62:
        raise RocketRefused(ResponseCode.NO_MESSAGE, f"There is no offset {entry.startOffset}.")


def _key_of(context: RocketContext, entry: BatchAck) -> PartitionKey:
    return key_of(context, entry.consumerGroup, entry.topic, entry.queueId)


def _offsets(entry: BatchAck) -> Iterator[int]:
    bits = int.from_bytes(entry.bits or b"", "little")
    return (entry.startOffset + bit for bit in range(bits.bit_length()) if bits >> bit & 1)
