"""The short way of plain messages: most that a node gets, which only want to be stored.

Strategy: a message is packed as a record when its request is read, and noted for its queue. At the end of the loop
iteration those of one queue become one batch, which has one header, one CRC and one append. They are answered together,
from a template, and all answers of a connection leave in one write. A message costs a third of what it does by the long
way (`python -m bench rocketmq-path`), and readers find few large batches.

Once a connection has sent such a message, the compiled pass looks at all that it reads (`take`): many messages by one
call, before they are cut into frames. What it leaves comes by `process`, request by request.

Everything else goes the long way, `requests/r310_send.py`: delays, transactions, requests for a reply, retries,
batches, compressed bodies, oneway sends, topics to be created, queues that another node leads, what its client has no
right to or no quota left for, and all messages while the disk is congested. Nothing overtakes what was noted before it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.produce.record_appends import append_batch
from hutong.broker.rocketmq.context import born_host_of
from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.translation import origin_end
from hutong.broker.rocketmq.refusals import answer_of
from hutong.broker.rocketmq.sends.compiled_sends import found_sends, joined_records
from hutong.broker.rocketmq.sends.guards import SendGuards
from hutong.broker.rocketmq.sends.plain_send import plain_send
from hutong.broker.rocketmq.sends.queues import Asked, PlainQueue, PlainQueues
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.table import Owner
from hutong.remoting.channels.answers import frame_of
from hutong.wire.kafka.batch.records import build_packed_batch
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.produce.record_appends import StoredRecords
    from hutong.broker.rocketmq.context import RocketParts
    from hutong.broker.rocketmq.figures import RocketFigures
    from hutong.broker.rocketmq.metering import Metering
    from hutong.reactor.connections.handler import RequestBatch
    from hutong.remoting.channels.answers import Answer
    from hutong.remoting.channels.channel import Channel
    from hutong.wire.buffer import Buffer

BATCH_BYTES_MAX: Final = 64 * 1024  # of messages that are stored together: about two pulls' work for a reader
FRAMES_MAX: Final = 512  # of one read that the compiled pass takes: about a millisecond


class PlainSends:
    """The short way of one node. `general` is the long way."""

    def __init__(
        self,
        parts: RocketParts,
        figures: RocketFigures,
        metering: Metering,
        general: Callable[[Command, Channel], Answer],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """`post` does work at the end of the loop iteration."""
        self._broker = parts.broker
        self._figures = figures
        self._guards = SendGuards(parts, metering)
        self._general = general
        self._post = post
        self._owner = Owner()
        self._queues = PlainQueues(parts)
        self._noted: list[PlainQueue] = []  # with messages

    def process(self, command: Command, channel: Channel) -> Answer:
        """Take a request to send."""
        if self._note(command, channel):
            if found_sends is not None and channel.peer.express is None:
                channel.peer.express = _SendExpress(self, channel)
            return None
        # It may be for the same queue as what was noted before it.
        self.append_noted()
        return self._general(command, channel)

    def take(self, data: Buffer, requests_max: int, channel: Channel, packed_origin_end: bytes) -> RequestBatch | None:
        """Take the plain messages at the beginning of what a connection has read, by the compiled pass."""
        assert found_sends is not None, "the pass is compiled"
        guards = self._guards
        # Each request is signed, or counts for a quota, by itself.
        if channel.is_slowed or self._broker.congestion.groups or guards.need_requests:
            return None
        allowed: set[PlainQueue] = set()
        count = taken = 0
        find_queue, figures = self._queues.newest(), self._figures
        for frame_end, place, form, code, opaque, tail, body_bytes in found_sends(
            data, packed_origin_end, min(requests_max, FRAMES_MAX)
        ):
            queue = find_queue(place)
            # The other ways say what is wrong, and count it.
            if queue is None or channel.is_slowed:
                break
            if queue not in allowed:
                if not guards.allow_connected(channel, queue.topic):
                    break
                allowed.add(queue)
            figures.received(code, body_bytes)
            channel.serialization = form
            channel.owe()
            self._add(queue, (channel, form, code, opaque), tail)
            count += 1
            taken = frame_end
        return (count, taken, []) if count else None

    def append_noted(self) -> None:
        """Append what was noted."""
        noted, self._noted = self._noted, []
        for queue in noted:
            self._append(queue)

    def close(self) -> None:
        """Let nothing wait any more for a congested disk."""
        self._owner.end()

    def _note(self, command: Command, channel: Channel) -> bool:
        """Note a message for its queue; False for one that goes the long way."""
        if self._broker.congestion.groups:
            return False
        found = plain_send(command, born_host_of(channel))
        queue = None if found is None else self._queues.newest()(found.place)
        if found is None or queue is None or not self._guards.allow(command, channel, queue.topic):
            return False
        self._figures.received(command.code, len(command.body))
        # What it is asked must have the form that it speaks itself: ali-ons reads no binary commands.
        channel.serialization = command.serialization
        channel.owe()
        self._add(queue, (channel, command.serialization, command.code, command.opaque), found.tail)
        return True

    def _add(self, queue: PlainQueue, asked: Asked, tail: bytes) -> None:
        if not queue.tails:
            if not self._noted:
                self._post(self.append_noted)
            self._noted.append(queue)
        queue.tails.append(tail)
        queue.asked.append(asked)
        queue.size += len(tail)
        if queue.size >= BATCH_BYTES_MAX:
            self._append(queue)

    def _append(self, queue: PlainQueue) -> None:
        # A full batch was appended before the end of the iteration, and nothing came after it.
        if not queue.tails:
            return
        # Now, and not with the first of them: a client could have made a later one after that.
        stored_ms = self._broker.clock.wall_ms()
        batch, asked = build_packed_batch(joined_records(queue.tails), len(queue.tails), stored_ms), queue.asked
        queue.tails, queue.asked, queue.size = [], [], 0
        append_batch(self._broker, queue.partition, batch, self._owner, partial(self._stored, queue, asked))

    def _stored(self, queue: PlainQueue, asked: list[Asked], outcome: StoredRecords | HutongError) -> None:
        """Answer the messages of one batch."""
        if isinstance(outcome, HutongError):
            self._refuse(asked, outcome)
            return
        frames: dict[Channel, list[Buffer]] = {}
        answer = ResponseCode.SUCCESS if outcome.is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT
        log_id, frame = queue.partition.log.partition_id, queue.answers.frame
        for offset, (channel, form, code, opaque) in enumerate(asked, outcome.base_offset):
            answered = frames.get(channel)
            if answered is None:
                answered = frames[channel] = []
            answered.append(frame(form, answer, opaque, physical_offset(log_id, offset), offset))
            if answer:
                self._figures.stored(code, answer)
        for channel, answers in frames.items():
            channel.settle(len(answers))
            channel.peer.push(answers)

    def _refuse(self, asked: list[Asked], error: HutongError) -> None:
        for channel, form, code, opaque in asked:
            command, answer = Command(code, opaque, serialization=form), answer_of(error)
            self._figures.answered(command, answer)
            channel.settle()
            channel.peer.push(frame_of(answer, command))


class _SendExpress:
    """The compiled pass over what one connection reads."""

    __slots__ = ("_channel", "_origin_end", "_sends")

    def __init__(self, sends: PlainSends, channel: Channel) -> None:
        self._sends = sends
        self._channel = channel
        self._origin_end = origin_end(born_host_of(channel))

    def take_requests(self, data: Buffer, requests_max: int) -> RequestBatch | None:
        return self._sends.take(data, requests_max, self._channel, self._origin_end)
