"""Apache Kafka's own: Connect (KIP-298), Streams (KIP-1034) and share groups (KIP-1191). All values are text.

They write the same things under three prefixes.
"""

from dataclasses import dataclass
from typing import Final

from hutong.bus.durable.records import RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter, HeaderValues, without_prefix


@dataclass(frozen=True, slots=True)
class KafkaLetters:
    """`PREFIXtopic`, `-partition`, `-offset`, and under names of their own the error, the attempts and the group."""

    name: str
    prefix: str
    error_type: str | None
    error_text: str
    attempts: str | None = None
    group: str | None = None

    def read(self, record: StoredRecord) -> DeadLetter | None:
        values = HeaderValues(record.headers)
        if not values.has_any((self.prefix + "topic", self.prefix + self.error_text)):
            return None

        def text(name: str | None) -> str | None:
            return None if name is None else values.text(self.prefix + name)

        return DeadLetter(
            self.name,
            topic=values.topic(self.prefix + "topic"),
            partition=values.number(self.prefix + "partition"),
            offset=values.number(self.prefix + "offset"),
            error_type=text(self.error_type),
            error_text=text(self.error_text),
            attempts=None if self.attempts is None else values.number(self.prefix + self.attempts),
            time_ms=record.timestamp_ms,
            group=text(self.group),
        )

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        return without_prefix(headers, self.prefix)


CONNECT: Final = KafkaLetters(
    "kafka connect", "__connect.errors.", "exception.class.name", "exception.message", group="connector.name"
)
STREAMS: Final = KafkaLetters("kafka streams", "__streams.errors.", "exception", "message")
SHARE_GROUPS: Final = KafkaLetters(
    "kafka share group", "__dlq.errors.", None, "message", attempts="delivery.count", group="group"
)
