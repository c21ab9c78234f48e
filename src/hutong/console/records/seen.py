"""Records as they were read for people, whole or cut to what a list shows."""

from dataclasses import dataclass, replace

from hutong.bus.durable.records import RawHeaders, StoredRecord


@dataclass(frozen=True, slots=True)
class WholeSizes:
    """The sizes of a record that was cut, -1 for a key or value that is missing."""

    key_bytes: int
    value_bytes: int
    headers: int


@dataclass(frozen=True, slots=True, eq=False)
class SeenRecord(StoredRecord):
    """A record with the facts that people ask for: whose time its timestamp is, and the leader's epoch.

    `is_masked`: parts of it are hidden. `whole`: it was cut from these sizes. `size_bytes` is that of the whole record.
    """

    timestamp_type: str | None = None
    leader_epoch: int | None = None
    whole: WholeSizes | None = None
    is_masked: bool = False


def cut_record(record: SeenRecord, payload_bytes_max: int) -> SeenRecord:
    """The record with `payload_bytes_max` bytes at most of its key, of its value, and of its headers."""
    if record.size_bytes <= payload_bytes_max:
        return record
    key, value = record.key, record.value
    whole = WholeSizes(_size(key), _size(value), len(record.headers))
    headers = _cut_headers(record.headers, payload_bytes_max)
    return replace(
        record,
        key=None if key is None else key[:payload_bytes_max],
        value=None if value is None else value[:payload_bytes_max],
        headers=headers,
        whole=whole,
    )


def _cut_headers(headers: RawHeaders, bytes_left: int) -> RawHeaders:
    kept: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        bytes_left -= len(name) + len(value or b"")
        if bytes_left < 0:
            break
        kept.append((name, value))
    return kept


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
