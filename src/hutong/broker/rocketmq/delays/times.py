"""Times at which messages are delivered, as their producers name them in properties.

    TIMER_DELAY_SEC, TIMER_DELAY_MS     seconds or milliseconds from now on
    TIMER_DELIVER_MS                    milliseconds since 1970
    __STARTDELIVERTIME                  the same, of Aliyun's clients

The first of them counts, and none for a message with a delay level, or one that has waited already: a consumer may send
that again with all its properties. As RocketMQ 5.5 (`HookUtils`), but to the millisecond, where that rounds to seconds.

Pure: values in, values out.
"""

from dataclasses import replace
from typing import Final

from hutong.broker.delays.steps import DelayedRecord, DeliveryPlace
from hutong.broker.rocketmq.delays.levels import RealPlace
from hutong.broker.rocketmq.records.names import rocketmq_name
from hutong.broker.rocketmq.records.translation import record_of
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.wire.rocketmq.codes import (
    DELAY_MS,
    DELAY_S,
    DELIVER_MS,
    DUE_MS,
    RETRY_PREFIX,
    START_DELIVER_MS,
    UNIQUE_KEY,
    ResponseCode,
)
from hutong.wire.rocketmq.messages import StoredMessage, decode_properties, encode_properties
from hutong.wire.rocketmq.recall_handles import RecallHandle, encode_handle

_DIGITS_MAX: Final = 18
_MARKS: Final = ("TIMER_DEL", START_DELIVER_MS)  # one is in the text of all four


def due_of(message: StoredMessage, now_ms: int, delay_max_ms: int) -> int | None:
    """The time of a message that has to wait, None for others. Raises RocketRefused for one that is too late."""
    # Looked for as text first: few messages have such a property.
    if not any(mark in message.properties for mark in _MARKS):
        return None
    properties = decode_properties(message.properties)
    if DUE_MS in properties:
        return None
    if (text := properties.get(DELAY_S)) is not None:
        due_ms = now_ms + _number(DELAY_S, text) * 1_000
    elif (text := properties.get(DELAY_MS)) is not None:
        due_ms = now_ms + _number(DELAY_MS, text)
    elif (text := properties.get(DELIVER_MS)) is not None:
        due_ms = _number(DELIVER_MS, text)
    elif (text := properties.get(START_DELIVER_MS)) is not None:
        due_ms = _number(START_DELIVER_MS, text)
    else:
        return None
    if due_ms - now_ms > delay_max_ms:
        raise RocketRefused(
            ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, the delay is over {delay_max_ms} ms (delay_max_s)"
        )
    # The past is now, as in RocketMQ.
    return due_ms if due_ms > now_ms else None


def waiting(message: StoredMessage, place: DeliveryPlace, due_ms: int) -> DelayedRecord:
    """The record that waits for its time."""
    # First: of properties that no longer fit a message the last ones are left out.
    properties = {DUE_MS: str(due_ms), **decode_properties(message.properties)}
    return DelayedRecord(due_ms, place, record_of(replace(message, properties=encode_properties(properties))))


def recall_handle(message: StoredMessage, place: RealPlace, due_ms: int, broker_name: str) -> str | None:
    """The handle by which its producer may recall a message, None where there is none."""
    topic, message_id = rocketmq_name(place.topic), decode_properties(message.properties).get(UNIQUE_KEY, "")
    # As RocketMQ: a retry is no message of a producer.
    if topic.startswith(RETRY_PREFIX):
        return None
    return encode_handle(RecallHandle(topic, broker_name, due_ms, message_id))


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    # Digits alone: `int` would take underscores, spaces and the digits of other scripts.
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {name} is no number: {text!r:.50}")
    return int(text)
