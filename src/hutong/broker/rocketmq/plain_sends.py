"""The short way of plain messages: most that a node gets, which only want to be stored.

Strategy: a message is packed as a record when its request is read, and noted for its queue. At the end of the loop
iteration those of one queue become one batch, which has one header, one CRC and one append. They are answered together,
from a template, and all answers of a connection leave in one write. A message costs a third of what it does by the long
way (`python -m bench rocketmq-path`), and readers find few large batches.

Everything else goes the long way, `requests/r310_send.py`: delays, transactions, requests for a reply, retries,
batches, compressed bodies, oneway sends, topics to be created, queues that another node leads; and all messages while
something is authorized, signed, limited by quotas or congested. Nothing overtakes what was noted before it.

What a queue comes to is remembered until any topic changes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.produce.record_appends import append_batch
from hutong.broker.rocketmq.context import born_host_of
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.records.packing import packed_record
from hutong.broker.rocketmq.records.positions import message_id, physical_offset
from hutong.broker.rocketmq.records.translation import origin
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.foundation.waiting.table import Owner
from hutong.remoting.channels.answers import frame_of
from hutong.wire.kafka.batch.records import build_packed_batch
from hutong.wire.rocketmq.codes import (
    DELAY_LEVEL,
    PREPARED,
    REPLY_TO_CLIENT,
    RETRY_PREFIX,
    START_DELIVER_MS,
    WAITS_FOR_STORE,
    RequestCode,
    ResponseCode,
)
from hutong.wire.rocketmq.messages import NAME_END, VALUE_END
from hutong.wire.rocketmq.send_answers import SendAnswers

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.produce.record_appends import StoredRecords
    from hutong.broker.rocketmq.context import RocketParts
    from hutong.broker.rocketmq.figures import RocketFigures
    from hutong.broker.topics.partition import Partition
    from hutong.remoting.channels.answers import Answer
    from hutong.remoting.channels.channel import Channel
    from hutong.wire.buffer import Buffer
    from hutong.wire.rocketmq.command import Command

BODY_BYTES_MAX: Final = 16 * 1024  # above it copies outweigh what the short way saves
PROPERTIES_MAX: Final = 8_000  # characters: the bytes of any text of this length fit a message
BATCH_BYTES_MAX: Final = 64 * 1024  # of messages that are stored together: about two pulls' work for a reader
QUEUES_MAX: Final = 10_000  # that are remembered
_TOPIC, _QUEUE, _FLAGS, _BORN, _FLAG, _PROPERTIES, _TIMES, _BATCH = range(8)
_NAMES: Final = {
    RequestCode.SEND_MESSAGE_V2: ("b", "e", "f", "g", "h", "i", "j", "m"),
    RequestCode.SEND_MESSAGE: (
        "topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "batch",
    ),
}  # fmt: skip
_MARKS: Final = (
    # What is in the text of each property that wants more than to be stored.
    DELAY_LEVEL,
    "TIMER_DEL",
    START_DELIVER_MS,
    PREPARED,
    REPLY_TO_CLIENT,
    f"{WAITS_FOR_STORE}{NAME_END}false{VALUE_END}",
)


class _Queue:
    """One queue, and its messages of this loop iteration."""

    __slots__ = ("answers", "asked", "partition", "records", "size", "stored_ms")

    def __init__(self, partition: Partition, answers: SendAnswers) -> None:
        self.partition = partition
        self.answers = answers
        self.records: list[bytes] = []
        self.asked: list[tuple[Channel, Command]] = []  # of each record
        self.size = 0
        self.stored_ms = 0


class PlainSends:
    """The short way of one node. `general` is the long way."""

    def __init__(
        self,
        parts: RocketParts,
        figures: RocketFigures,
        general: Callable[[Command, Channel], Answer],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """`post` does work at the end of the loop iteration."""
        self._parts = parts
        self._broker = parts.broker
        self._figures = figures
        self._general = general
        self._post = post
        self._owner = Owner()
        self._queues: dict[tuple[str, str], _Queue | None] = {}
        self._version = -1  # of the topics that the queues are of
        self._noted: list[_Queue] = []  # with messages

    def process(self, command: Command, channel: Channel) -> Answer:
        """Take a request to send."""
        if self._note(command, channel):
            return None
        # It may be for the same queue as what was noted before it.
        self.append_noted()
        return self._general(command, channel)

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
        names = _NAMES.get(command.code)  # type: ignore[call-overload]  # any number may come
        if names is None or command.is_oneway or len(command.body) > BODY_BYTES_MAX or self._is_closed():
            return False
        try:
            get = command.ext().get
        except ProtocolError:
            return False
        properties, born, flag = get(names[_PROPERTIES], ""), get(names[_BORN], ""), get(names[_FLAG], "0")
        is_plain = (
            get(names[_FLAGS]) == "0"
            and get(names[_TIMES], "0") == "0"
            and get(names[_BATCH], "false") == "false"
            and _is_small(born, 18)
            and _is_small(flag, 9)
            and len(properties) <= PROPERTIES_MAX
            and not _wants_more(properties)
        )
        queue = self._queue(get(names[_TOPIC], ""), get(names[_QUEUE], "")) if is_plain else None
        if queue is None:
            return False
        self._figures.begun(command)
        # What it is asked must have the form that it speaks itself: ali-ons reads no binary commands.
        channel.serialization = command.serialization
        channel.owe()
        self._add(
            queue, command, channel, properties.encode(), origin(int(flag), 0, int(born), 0, born_host_of(channel))
        )
        return True

    def _is_closed(self) -> bool:
        """True while every message goes the long way."""
        broker = self._broker
        return bool(
            broker.authorizer.is_on or broker.meter.is_on or broker.congestion.groups or self._parts.signatures.secrets
        )

    def _queue(self, topic: str, queue_id: str) -> _Queue | None:
        """The queue of that name, if it is one for the short way."""
        version = self._broker.topics.version
        # A topic was created, deleted or altered, or another node leads some queues. What is noted is unaffected.
        if version != self._version or len(self._queues) >= QUEUES_MAX:
            self._queues.clear()
            self._version = version
        key = topic, queue_id
        if key not in self._queues:
            self._queues[key] = self._find_queue(topic, queue_id)
        return self._queues[key]

    def _find_queue(self, topic: str, queue_id: str) -> _Queue | None:
        if topic.startswith(RETRY_PREFIX) or not _is_small(queue_id, 9):
            return None
        try:
            name = log_name(topic)
        except RocketRefused:
            return None
        found = self._broker.topics.get(name)
        if found is None or found.is_internal or found.config.schemas:
            return None
        partition = found.partition(int(queue_id))
        if partition is None or not (self._broker.cluster.is_alone or partition.standing.is_led_here):
            return None
        id_begin = message_id(self._parts.identity.store_host, 0)[:-16]
        return _Queue(partition, SendAnswers(id_begin, partition.index))

    def _add(self, queue: _Queue, command: Command, channel: Channel, properties: bytes, packed_origin: bytes) -> None:
        if not queue.records:
            queue.stored_ms = self._broker.clock.wall_ms()
            if not self._noted:
                self._post(self.append_noted)
            self._noted.append(queue)
        record = packed_record(properties, command.body, packed_origin, len(queue.records))
        queue.records.append(record)
        queue.asked.append((channel, command))
        queue.size += len(record)
        if queue.size >= BATCH_BYTES_MAX:
            self._append(queue)

    def _append(self, queue: _Queue) -> None:
        # A full batch was appended before the end of the iteration, and nothing came after it.
        if not queue.records:
            return
        batch, asked = build_packed_batch(queue.records, queue.stored_ms), queue.asked
        queue.records, queue.asked, queue.size = [], [], 0
        append_batch(self._broker, queue.partition, batch, self._owner, partial(self._stored, queue, asked))

    def _stored(
        self, queue: _Queue, asked: list[tuple[Channel, Command]], outcome: StoredRecords | HutongError
    ) -> None:
        """Answer the messages of one batch."""
        if isinstance(outcome, HutongError):
            self._refuse(asked, outcome)
            return
        frames: dict[Channel, list[Buffer]] = {}
        code = ResponseCode.SUCCESS if outcome.is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT
        offset, log_id, frame = outcome.base_offset, queue.partition.log.partition_id, queue.answers.frame
        for channel, command in asked:
            answer = frame(command.serialization, code, command.opaque, physical_offset(log_id, offset), offset)
            frames.setdefault(channel, []).append(answer)
            offset += 1
            self._figures.stored(command.code, code)
        for channel, answers in frames.items():
            channel.settle(len(answers))
            channel.peer.push(answers)

    def _refuse(self, asked: list[tuple[Channel, Command]], error: HutongError) -> None:
        for channel, command in asked:
            answer = answer_of(error)
            self._figures.answered(command, answer)
            channel.settle()
            channel.peer.push(frame_of(answer, command))


def _wants_more(properties: str) -> bool:
    """True if a message has one of the marked properties, or their text in another one."""
    for mark in _MARKS:  # noqa: SIM110  # `any` with a generator takes three times as long as six searches
        if mark in properties:
            return True
    return False


def _is_small(text: str, digits_max: int) -> bool:
    """Return True for digits alone, few enough that any number of this length fits."""
    return text.isdigit() and text.isascii() and len(text) <= digits_max
