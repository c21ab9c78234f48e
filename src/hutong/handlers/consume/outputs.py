"""Records that a consumer writes: results of handlers, and dead letters.

Knows no machine and no client library.
"""

from collections.abc import Iterable
from typing import Any, Final

from hutong.bus.durable.records import (
    CONTENT_TYPE,
    Death,
    OutgoingRecord,
    RawHeaders,
    StoredRecord,
    dead_letter,
    encode_key,
)
from hutong.foundation.errors import LimitExceeded
from hutong.handlers.consume.messages import WorkItem
from hutong.handlers.declare.models import encoded
from hutong.handlers.declare.options import Output, TopicHandler

RECORD_BYTES_MAX: Final = 1_000_000  # with its headers within Kafka's own default of message.max.bytes


def results_of(handler: TopicHandler, item: WorkItem, returned: Any) -> list[OutgoingRecord]:
    """One record, or one for each element of a list. Raises TypeError and the like for what cannot be encoded."""
    results: Iterable[Any] = returned if isinstance(returned, list) else (returned,)
    records = [result_record(handler.to or "", result, item.key) for result in results if result is not None]
    largest = max((len(record.value or b"") for record in records), default=0)
    # Refused here: in a transaction the producer would refuse it together with all others, again and again.
    if largest > RECORD_BYTES_MAX:
        raise LimitExceeded("result_bytes_max", RECORD_BYTES_MAX)
    return records


def result_record(topic: str, result: Any, key: bytes | None) -> OutgoingRecord:
    headers: list[tuple[str, bytes | None]] = []
    value = result
    if isinstance(result, Output):
        value, topic = result.value, result.topic or topic
        key = key if result.key is None else encode_key(result.key)
        headers = [(name, text.encode() if isinstance(text, str) else text) for name, text in result.headers]
    content, content_type = encoded(value)
    if content_type is not None:
        headers.append((CONTENT_TYPE, content_type))
    return OutgoingRecord(topic, key, content, headers)


def letters_of(handler: TopicHandler, item: WorkItem) -> list[OutgoingRecord]:
    """The item's messages as they were, with headers that say what happened."""
    assert handler.dead_letters is not None, "the machine knows if there are dead letters"
    death = Death(
        handler.group,
        item.error_type,
        item.error_text,
        item.attempts,
        item.first_failure_ms,
        item.last_failure_ms,
    )
    return [dead_letter(_stored(record.message), handler.dead_letters, death) for record in item.records]


def _stored(message: Any) -> StoredRecord:
    headers: RawHeaders = message.headers() or ()
    return StoredRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
        len(message),
    )
