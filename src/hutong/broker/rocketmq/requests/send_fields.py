"""The fields of a request to send, and the messages in it.

SEND_MESSAGE_V2 has the fields of SEND_MESSAGE under single letters, and so has SEND_REPLY_MESSAGE_V2. A batch packs its
messages into one body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.context import checked_integer
from hutong.broker.rocketmq.records.packed_bodies import plain_body
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.wire.rocketmq.codes import CLUSTER, COMPRESSED, COMPRESSION_MASK, REPLY_TO_CLIENT, RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import (
    NAME_END,
    PROPERTIES_BYTES_MAX,
    VALUE_END,
    BatchedMessage,
    StoredMessage,
    decode_batch,
)

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

BATCH_MESSAGES_MAX: Final = 100_000
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024  # `maxMessageSize` of RocketMQ, before compression
_LETTERS: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "maxReconsumeTimes": "l",
    "batch": "m",
}


_NAMED: Final = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE))


class SendFields:
    """The fields of one request, by their names of SEND_MESSAGE."""

    __slots__ = ("_context", "_ext", "_is_named")

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self._ext = context.command.ext()
        self._is_named = context.command.code in _NAMED

    def text(self, name: str, default: str | None = None) -> str:
        """A field. Raises as `RocketContext.text`."""
        value = self._ext.get(name if self._is_named else _LETTERS[name], default)
        if value is None:
            raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"The field {name} is missing.")
        return value

    def integer(self, name: str, default: int, *, bits: int = 64) -> int:
        """A field that is a number. Raises as `RocketContext.integer`."""
        text = self._ext.get(name if self._is_named else _LETTERS[name])
        # Clients leave out fields that older versions did not have.
        return default if text is None else checked_integer(name, text, bits)

    def messages(self, queue_id: int) -> list[StoredMessage]:
        """The messages to store: one, or those of a batch. Raises RocketRefused, ProtocolError, LimitExceeded."""
        message = self._message(queue_id)
        # Either says so: the code, or the flag of the other two.
        if self._context.command.code != RequestCode.SEND_BATCH_MESSAGE and self.text("batch", "false") != "true":
            return [message]
        batched = decode_batch(message.body, BATCH_MESSAGES_MAX)
        # No record would be stored, and no offset could be answered.
        if not batched:
            raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, "The batch has no messages.")
        return [_one_of(message, each) for each in batched]

    def _message(self, queue_id: int) -> StoredMessage:
        context = self._context
        now_ms = context.parts.broker.clock.wall_ms()
        sys_flag, body = self.integer("sysFlag", 0, bits=32), context.command.body
        # Also of a batch, which is compressed as a whole.
        if sys_flag & COMPRESSED:
            body = plain_body(sys_flag, body, MESSAGE_BYTES_MAX)
        properties = self._properties()
        # Their length is 16 bits in a message: consumers would get a part of them.
        if len(properties.encode()) > PROPERTIES_BYTES_MAX:
            raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, f"Properties have {PROPERTIES_BYTES_MAX} bytes at most.")
        return StoredMessage(
            "",
            queue_id,
            0,
            0,
            body,
            properties,
            self.integer("flag", 0, bits=32),
            sys_flag & ~(COMPRESSED | COMPRESSION_MASK),
            self.integer("bornTimestamp", now_ms),
            context.born_host(),
            now_ms,
            reconsume_times=self.integer("reconsumeTimes", 0, bits=32),
        )

    def _properties(self) -> str:
        properties = self.text("properties", "")
        # Who answers a request names the topic of replies by it. RocketMQ's broker gives it to every message.
        if REPLY_TO_CLIENT in properties and CLUSTER + NAME_END not in properties:
            end = "" if properties.endswith(VALUE_END) else VALUE_END
            cluster = self._context.parts.identity.cluster_name
            properties = f"{properties}{end}{CLUSTER}{NAME_END}{cluster}{VALUE_END}"
        return properties


def _one_of(whole: StoredMessage, each: BatchedMessage) -> StoredMessage:
    return StoredMessage(
        "",
        whole.queue_id,
        0,
        0,
        each.body,
        each.properties,
        each.flag,
        whole.sys_flag,
        whole.born_ms,
        whole.born_host,
        whole.stored_ms,
    )
