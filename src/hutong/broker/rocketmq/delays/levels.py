"""Delay levels, and delayed messages on their way in and out of the schedule.

RocketMQ's 18 levels are numbered from 1. A delayed message is stored in the queue of its level, under the topic that
RocketMQ uses, with its real place in two properties. All messages of a queue wait equally long, so its head is always
due first: nothing but an offset is kept in memory, however many wait.

Pure: values in, values out.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from hutong.wire.rocketmq.codes import DELAY_LEVEL
from hutong.wire.rocketmq.messages import StoredMessage, decode_properties, encode_properties

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
_MINUTE_S: Final = 60
LEVELS_S: Final = (
    1, 5, 10, 30, *(minutes * _MINUTE_S for minutes in (*range(1, 11), 20, 30)), 60 * _MINUTE_S, 120 * _MINUTE_S,
)  # fmt: skip
"""`messageDelayLevel`: 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h."""


class RealPlace(NamedTuple):
    """The queue that a delayed message is for. `topic` is its name in the log."""

    topic: str
    queue_id: int


def level_of(message: StoredMessage) -> int:
    """The delay level of a message, 0 for one that is not delayed; above the last one counts as the last."""
    # Looked for as text first: few messages have the property.
    if DELAY_LEVEL not in message.properties:
        return 0
    text = decode_properties(message.properties).get(DELAY_LEVEL, "0")
    # RocketMQ fails to parse anything else, and stores the message without a delay.
    if not text.isascii() or not text.isdigit() or len(text) > 3:
        return 0
    return min(int(text), len(LEVELS_S))


def scheduled(message: StoredMessage, place: RealPlace, level: int) -> StoredMessage:
    """The same message as it waits in the queue of its level."""
    # First: of properties that no longer fit a message the last ones are left out, and without a place it is lost.
    properties = {DELAY_LEVEL: str(level), REAL_TOPIC: place.topic, REAL_QUEUE: str(place.queue_id)}
    properties = {**properties, **decode_properties(message.properties), **properties}
    return replace(message, queue_id=level - 1, properties=encode_properties(properties))


def delivered(message: StoredMessage) -> tuple[StoredMessage, RealPlace] | None:
    """The message without its delay, and its place; None for a record that was not delayed by this protocol."""
    properties = decode_properties(message.properties)
    topic, queue = properties.pop(REAL_TOPIC, ""), properties.pop(REAL_QUEUE, "")
    properties.pop(DELAY_LEVEL, None)
    # A Kafka client that may write to the topic of the schedule may write anything.
    if not topic or not queue.isascii() or not queue.isdigit() or len(queue) > 9:
        return None
    return replace(message, properties=encode_properties(properties)), RealPlace(topic, int(queue))


def retry_level(asked: int, reconsume_times: int) -> int:
    """The level of a message that failed: the one asked for, or one that rises with each time (10 s, 30 s, 1 min)."""
    return min(asked if asked > 0 else 3 + reconsume_times, len(LEVELS_S))
