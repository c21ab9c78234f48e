"""RocketMQ's clients: messages of `%DLQ%GROUP`, in the log the topic `DLQ.GROUP`.

A message that was sent back too often has its topic of origin in the property `RETRY_TOPIC`. The header `rocketmq` has
the number of times that it was consumed; it is set to 0 on the way back, or the next failure would bury the message at
once. RocketMQ notes no reason.
"""

import struct
from typing import Final

from hutong.bus.durable.records import RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter, HeaderValues
from hutong.wire.rocketmq.codes import MAX_RECONSUME_TIMES, ORIGIN_MESSAGE_ID, RECONSUME_TIME, RETRY_TOPIC

TOPIC_PREFIX: Final = "DLQ."
_ORIGIN: Final = "rocketmq"
_BEGIN: Final = struct.Struct(">Biiqi")  # version, flag, sysFlag, time of birth, times consumed; host and port follow
_TIMES_AT: Final = 17  # bytes before the times consumed
_OWN: Final = frozenset((RETRY_TOPIC, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES, "DELAY"))


class RocketLetters:
    """The property `RETRY_TOPIC` in a topic of dead letters."""

    name = "rocketmq"

    def read(self, record: StoredRecord) -> DeadLetter | None:
        values = HeaderValues(record.headers)
        # A retry topic has messages with this property, too, and so has what came out of one.
        if not record.topic.startswith(TOPIC_PREFIX) or not values.has_any((RETRY_TOPIC, _ORIGIN)):
            return None
        return DeadLetter(
            self.name,
            topic=values.topic(RETRY_TOPIC),
            error_text="consumed without success",
            attempts=_times_consumed(values.raw(_ORIGIN)),
            time_ms=record.timestamp_ms,
            group=record.topic.removeprefix(TOPIC_PREFIX),
        )

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        return [
            (name, _consumed_never(value) if name == _ORIGIN else value) for name, value in headers if name not in _OWN
        ]


def _times_consumed(origin: bytes | None) -> int | None:
    if origin is None or len(origin) < _BEGIN.size:
        return None
    times = int(_BEGIN.unpack_from(origin)[-1])
    return times if times >= 0 else None


def _consumed_never(origin: bytes | None) -> bytes | None:
    # A header of this name that another program wrote is left as it is.
    if _times_consumed(origin) is None or origin is None:
        return origin
    return origin[:_TIMES_AT] + bytes(4) + origin[_BEGIN.size :]
