"""Records as a log would return them."""

from hutong.bus.durable.records import RawHeaders, StoredRecord


def record(
    offset: int = 0,
    value: bytes | None = b"v",
    *,
    key: bytes | None = None,
    partition: int = 0,
    timestamp_ms: int = 1_000,
    headers: RawHeaders = (),
) -> StoredRecord:
    size = len(key or b"") + len(value or b"")
    return StoredRecord("t", partition, offset, timestamp_ms, key, value, headers, size)
