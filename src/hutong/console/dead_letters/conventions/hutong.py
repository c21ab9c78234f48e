"""Handlers, durable addresses of the bus and share groups of this broker: headers `hutong-dead-*`.

Times are of the last failure; a share group notes none, and its letters have the record's own time.
"""

from typing import Final

from hutong.bus.durable.records import DEAD_PREFIX, RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter, HeaderValues, without_prefix

_ORIGIN: Final = DEAD_PREFIX + "topic"


class HutongLetters:
    """`hutong-dead-topic` and its like."""

    name = "hutong"

    def read(self, record: StoredRecord) -> DeadLetter | None:
        values = HeaderValues(record.headers)
        if _ORIGIN not in values:
            return None
        # 0: a failure that was not in order, or none at all.
        failed_ms = values.number(DEAD_PREFIX + "last-failure-ms") or values.number(DEAD_PREFIX + "timestamp-ms")
        return DeadLetter(
            self.name,
            topic=values.topic(_ORIGIN),
            partition=values.number(DEAD_PREFIX + "partition"),
            offset=values.number(DEAD_PREFIX + "offset"),
            error_type=values.text(DEAD_PREFIX + "error-type"),
            error_text=values.text(DEAD_PREFIX + "error-message"),
            attempts=values.number(DEAD_PREFIX + "attempts"),
            time_ms=failed_ms,
            group=values.text(DEAD_PREFIX + "group"),
        )

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        return without_prefix(headers, DEAD_PREFIX)
