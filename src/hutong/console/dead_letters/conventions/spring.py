"""Spring for Apache Kafka: headers `kafka_dlt-*`. Numbers are big-endian, of four or eight bytes.

Its retry topics add `retry_topic-attempts`, an integer of four bytes, and times. Values that other programs wrote as
decimal text are read, too.
"""

from typing import Final

from hutong.bus.durable.records import RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter, HeaderValues, without_prefix

_PREFIX: Final = "kafka_dlt-"
_RETRY: Final = "retry_topic-"
_ATTEMPTS: Final = _RETRY + "attempts"
_KINDS: Final = (_PREFIX + "original-topic", _PREFIX + "exception-fqcn", _PREFIX + "exception-message")


class SpringLetters:
    """`kafka_dlt-original-topic` and its like."""

    name = "spring"

    def read(self, record: StoredRecord) -> DeadLetter | None:
        values = HeaderValues(record.headers)
        if not values.has_any(_KINDS):
            return None
        return DeadLetter(
            self.name,
            topic=values.topic(_PREFIX + "original-topic"),
            partition=_integer(values, _PREFIX + "original-partition", 4),
            offset=_integer(values, _PREFIX + "original-offset", 8),
            # The listener wraps every exception in its own; the cause says more.
            error_type=values.text(_PREFIX + "exception-cause-fqcn") or values.text(_PREFIX + "exception-fqcn"),
            error_text=values.text(_PREFIX + "exception-message"),
            attempts=_integer(values, _ATTEMPTS, 4),
            time_ms=_integer(values, _PREFIX + "original-timestamp", 8),
            group=values.text(_PREFIX + "original-consumer-group"),
        )

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        return without_prefix(headers, _PREFIX, _RETRY)


def _integer(values: HeaderValues, name: str, size_bytes: int) -> int | None:
    raw = values.raw(name)
    if raw is None:
        return None
    # Four digits are four bytes, too: as an integer they would be over 800 million, which no attempt or partition is.
    digits = values.number(name)
    if digits is not None:
        return digits
    number = int.from_bytes(raw, "big", signed=True) if len(raw) == size_bytes else -1
    return number if number >= 0 else None
