"""The jobs `dead-letters` and `access-log` of pipelines: headers `reason` and `source-*`, all as text.

`replays` stays with the record: the job `replay-dead-letters` counts by it.
"""

from typing import Final

from hutong.bus.durable.records import RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter, HeaderValues

_REASON: Final = "reason"
_TOPIC, _PARTITION, _OFFSET, _TIME = "source-topic", "source-partition", "source-offset", "source-timestamp"
_OWN: Final = frozenset((_REASON, _TOPIC, _PARTITION, _OFFSET, _TIME))


class PipelineLetters:
    """`source-topic` and its like."""

    name = "pipeline"

    def read(self, record: StoredRecord) -> DeadLetter | None:
        values = HeaderValues(record.headers)
        # `reason` alone could be anybody's.
        if _TOPIC not in values:
            return None
        return DeadLetter(
            self.name,
            topic=values.topic(_TOPIC),
            partition=values.number(_PARTITION),
            offset=values.number(_OFFSET),
            error_text=values.text(_REASON),
            time_ms=values.number(_TIME),
        )

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        return [(name, value) for name, value in headers if name not in _OWN]
