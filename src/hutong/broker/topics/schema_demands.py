"""Demands of a topic on the schemas of its records: settings under Confluent's names.

Knows nothing of schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

KEY_VALIDATION: Final = "confluent.key.schema.validation"
VALUE_VALIDATION: Final = "confluent.value.schema.validation"
KEY_STRATEGY: Final = "confluent.key.subject.name.strategy"
VALUE_STRATEGY: Final = "confluent.value.subject.name.strategy"

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME: Final = f"{_PACKAGE}TopicNameStrategy"
RECORD_NAME: Final = f"{_PACKAGE}RecordNameStrategy"
TOPIC_RECORD_NAME: Final = f"{_PACKAGE}TopicRecordNameStrategy"


@dataclass(frozen=True, slots=True)
class SchemaDemand:
    """The keys or the values must begin with the id of a schema that is registered under a subject of the topic."""

    of_keys: bool
    strategy: str = TOPIC_NAME

    @property
    def field(self) -> str:
        return "key" if self.of_keys else "value"

    def subject(self, topic: str) -> str | None:
        """The one subject that counts, None where several do."""
        return f"{topic}-{self.field}" if self.strategy == TOPIC_NAME else None

    def prefix(self, topic: str) -> str:
        """The beginning of the subjects that count, where several do."""
        return f"{topic}-" if self.strategy == TOPIC_RECORD_NAME else ""

    def place(self, topic: str) -> str:
        """The place where a schema must be, in words."""
        subject, prefix = self.subject(topic), self.prefix(topic)
        if subject is not None:
            return f"registered under the subject {subject}"
        return f"registered under a subject that begins with {prefix}" if prefix else "registered"


def demands_in(text: Mapping[str, str]) -> tuple[SchemaDemand, ...]:
    """The demands of a topic with these settings; of nearly every one there are none."""
    found = []
    if text[KEY_VALIDATION] == "true":
        found.append(SchemaDemand(of_keys=True, strategy=text[KEY_STRATEGY]))
    if text[VALUE_VALIDATION] == "true":
        found.append(SchemaDemand(of_keys=False, strategy=text[VALUE_STRATEGY]))
    return tuple(found)
