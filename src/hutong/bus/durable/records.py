"""Messages as records: body and headers to the bytes of a record, and back.

Strategy: bytes are stored as they are, text as UTF-8, anything else as JSON, so that every Kafka client reads it; a
header `content-type` says which (none: bytes), and what comes from other clients is read by the same header. A dead
letter is the record it was, byte by byte, with headers that say what happened.

Knows nothing of brokers or loops.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hutong.foundation.errors import HutongError, LimitExceeded, UsageError

CONTENT_TYPE: Final = "content-type"
KEY_HEADER: Final = "hutong-key"
TEXT: Final = "text/plain"
JSON: Final = "application/json"
BODY_DEPTH_MAX: Final = 100
ERROR_TEXT_CHARS_MAX: Final = 2_000
HEADERS_BYTES_MAX: Final = 64 << 10
DEAD_PREFIX: Final = "hutong-dead-"

RawHeaders = Sequence[tuple[str, bytes | None]]


class UnreadableBody(HutongError):
    """The content type of a record is text or JSON, and its body is not."""


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record on its way to the log. Without a partition its key decides; without a time the producer's clock does."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecord:
    """A record as it came from the log. `timestamp_ms`: since 1970, by producer or broker; -1 where there is none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    size_bytes: int


def encode_body(body: object) -> tuple[bytes | None, str | None]:
    """The value and its content type. Raises UsageError for what cannot be stored, LimitExceeded for deep nesting."""
    if body is None:
        return None, None
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), None
    try:
        if isinstance(body, str):
            return body.encode(), TEXT
        _check(body, BODY_DEPTH_MAX)
        return msgspec.json.encode(body), JSON
    except UnicodeEncodeError:
        raise UsageError("The body has a lone surrogate in it, which no text may have.") from None


def _check(body: Any, depth_left: int) -> None:
    """JSON takes more than it gives back (NaN becomes null, a set a list): only what comes back the same may pass."""
    kind = type(body)
    if kind is str or kind is int or kind is bool or body is None:
        return
    if kind is float:
        if not math.isfinite(body):
            raise UsageError(f"JSON has no {body}; a durable message's numbers are finite.")
    elif kind is dict or kind is list:
        if not depth_left:
            raise LimitExceeded("body_depth_max", BODY_DEPTH_MAX)
        if kind is dict and not all(type(name) is str for name in body):
            raise UsageError("The names in a durable message's body are strings.")
        for part in body.values() if kind is dict else body:
            _check(part, depth_left - 1)
    else:
        raise UsageError(
            f"A durable message's body is None, bytes, str or JSON (bool, int, float, dict, list), not {kind.__name__}."
        )


def decode_body(value: bytes | None, headers: RawHeaders) -> object:
    """The body of a record. Raises UnreadableBody where it is not what its content type says."""
    if value is None:
        return None
    content_type = next((text for name, text in headers if name.lower() == CONTENT_TYPE), None)
    if content_type is None:
        return value
    kind = content_type.partition(b";")[0].strip().lower()
    try:
        if kind == b"application/json" or kind.endswith(b"+json"):
            return msgspec.json.decode(value)
        if kind == b"text/plain":
            return value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableBody(f"the body is no {kind.decode(errors='replace')}: {error}") from None
    return value


def encode_headers(pairs: Iterable[tuple[str, str]], content_type: str | None) -> list[tuple[str, bytes | None]]:
    """Headers of a record. Raises LimitExceeded when they are too many bytes, UsageError for lone surrogates."""
    try:
        headers: list[tuple[str, bytes | None]] = [
            (name, value.encode()) for name, value in pairs if name.lower() not in (CONTENT_TYPE, KEY_HEADER)
        ]
        if sum(len(name.encode()) + len(value or b"") for name, value in headers) > HEADERS_BYTES_MAX:
            raise LimitExceeded("headers_bytes_max", HEADERS_BYTES_MAX)
    except UnicodeEncodeError:
        raise UsageError("A header has a lone surrogate in it, which no text may have.") from None
    if content_type is not None:
        headers.append((CONTENT_TYPE, content_type.encode()))
    return headers


def decode_headers(headers: RawHeaders) -> list[tuple[str, str]]:
    """As text, in order, repeated names kept; bytes that are no UTF-8 are shown as U+FFFD, a missing value as ""."""
    return [(name, (value or b"").decode(errors="replace")) for name, value in headers]


def encode_key(key: str | bytes | None) -> bytes | None:
    if not isinstance(key, str):
        return key
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise UsageError("The key has a lone surrogate in it, which no text may have.") from None


@dataclass(frozen=True, slots=True)
class Death:
    """The reason for giving up a message. Times in milliseconds since 1970; 0: no attempt failed in order."""

    group: str
    error_type: str
    error_text: str
    attempts: int
    first_failure_ms: int
    last_failure_ms: int


def dead_letter(record: StoredRecord, topic: str, death: Death) -> OutgoingRecord:
    """The record for the dead-letter topic. It replaces the headers of an earlier dead letter."""
    story = {
        "error-type": death.error_type,
        "error-message": death.error_text[:ERROR_TEXT_CHARS_MAX],
        "attempts": str(death.attempts),
        "group": death.group,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp-ms": str(record.timestamp_ms),
        "first-failure-ms": str(death.first_failure_ms),
        "last-failure-ms": str(death.last_failure_ms),
    }
    headers = [(name, value) for name, value in record.headers if not name.startswith(DEAD_PREFIX)]
    headers += [(DEAD_PREFIX + name, text.encode(errors="backslashreplace")) for name, text in story.items()]
    return OutgoingRecord(topic, record.key, record.value, headers)
