"""Transactional messages on their way in and out of the topic of half messages.

A half message is stored as any message, with its real place and its producer's user in properties. They come first,
and a message in which they have no room is refused. So nothing is lost when it is committed.

Pure: values in, values out.
"""

from dataclasses import replace
from typing import Final

from hutong.broker.rocketmq.delays.levels import REAL_QUEUE, REAL_TOPIC, RealPlace
from hutong.broker.rocketmq.halves.machine import Half
from hutong.broker.rocketmq.records.names import rocketmq_name
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.wire.rocketmq.codes import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    PREPARED,
    PRODUCER_GROUP,
    TRANSACTION_COMMITTED,
    TRANSACTION_ID,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    ResponseCode,
)
from hutong.wire.rocketmq.messages import (
    NAME_END,
    PROPERTIES_BYTES_MAX,
    VALUE_END,
    StoredMessage,
    decode_properties,
    encode_properties,
)

PREPARED_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - 64  # a check adds a property
USER: Final = "HALF_USER"  # of ours: who has sent the half message
IMMUNITY_S_MAX: Final = 3 * 86_400  # RocketMQ drops a half message that is older than its log, three days


def is_prepared(message: StoredMessage) -> bool:
    """Return True for a message that begins a transaction."""
    # A consumer that sends a message back leaves its properties as they were.
    if message.reconsume_times:
        return False
    # Looked for as text first: few messages have the property.
    if PREPARED in message.properties:
        return decode_properties(message.properties).get(PREPARED, "").lower() == "true"
    return message.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED


def prepared(message: StoredMessage, place: RealPlace, group: str, user: str) -> StoredMessage:
    """The same message as it waits for its end. Raises RocketRefused for one that has no room for what is added."""
    properties = decode_properties(message.properties)
    ours = {REAL_TOPIC: place.topic, REAL_QUEUE: str(place.queue_id), USER: user}
    if key := properties.get(UNIQUE_KEY):
        ours[TRANSACTION_ID] = key
    properties = {**ours, PRODUCER_GROUP: group, **properties, **ours}
    text = encode_properties(properties)
    if len(text.encode()) > PREPARED_BYTES_MAX or NAME_END in user or VALUE_END in user:
        raise RocketRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"Properties of a half message have {PREPARED_BYTES_MAX} bytes at most, with its place.",
        )
    return replace(message, queue_id=0, properties=text, sys_flag=message.sys_flag & ~TRANSACTION_MASK)


def half_of(message: StoredMessage) -> Half | None:
    """The facts of a stored half message; None for a record that this node has not written."""
    properties = decode_properties(message.properties)
    if _place(properties) is None or USER not in properties:
        return None
    group, key = properties.get(PRODUCER_GROUP, ""), properties.get(UNIQUE_KEY, "")
    return Half(group, properties[USER], key, _immunity_ms(properties.get(CHECK_IMMUNITY, "")))


def committed(message: StoredMessage, physical: int) -> tuple[StoredMessage, RealPlace] | None:
    """The message for its real queue; None for a record that was no half message."""
    properties = decode_properties(message.properties)
    place = _place(properties)
    if place is None:
        return None
    for name in (REAL_TOPIC, REAL_QUEUE, USER, PREPARED, CHECK_TIMES):
        properties.pop(name, None)
    sys_flag = message.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMITTED
    text = encode_properties(properties)
    done = replace(message, queue_id=place.queue_id, properties=text, sys_flag=sys_flag, prepared_offset=physical)
    return done, place


def asked_about(message: StoredMessage, times: int) -> StoredMessage:
    """The message as its producer gets it with a check, under its real name."""
    properties = decode_properties(message.properties)
    place = _place(properties)
    properties.pop(USER, None)
    properties[CHECK_TIMES] = str(times)
    text = encode_properties(properties)
    if place is not None:
        message = replace(message, topic=rocketmq_name(place.topic), queue_id=place.queue_id)
    return replace(message, properties=text)


def given_up(message: StoredMessage) -> StoredMessage:
    """The message that nobody decided, as it is kept for somebody to look at."""
    properties = decode_properties(message.properties)
    properties.pop(USER, None)
    return replace(message, queue_id=0, properties=encode_properties(properties))


def _place(properties: dict[str, str]) -> RealPlace | None:
    topic, queue = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE, "")
    if not topic or not queue.isascii() or not queue.isdigit() or len(queue) > 9:
        return None
    return RealPlace(topic, int(queue))


def _immunity_ms(text: str) -> int | None:
    """As RocketMQ: what is no number, or is below zero, counts as not given."""
    if not text.isascii() or not text.isdigit():
        return None
    return 1_000 * (min(int(text), IMMUNITY_S_MAX) if len(text) <= 9 else IMMUNITY_S_MAX)
