"""The decoder against the plain Python reader of the wire, over anything and over broken bytes."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.batches import batches, record_set, with_attributes, with_crc
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.source.decode import decoder as decoder_module
from hutong.pipelines.source.decode.columns import SCHEMA
from hutong.pipelines.source.decode.decoder import Decoder
from hutong.pipelines.source.decode.index import index_batches
from hutong.pipelines.source.fetching import RecordSet
from hutong.pipelines.source.options import COLUMNS
from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction
from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records

ALL_OFFSETS = (0, 2**62)
codecs = st.sampled_from(list(Compression))


def tables(
    content: bytes,
    window: tuple[int, int] = ALL_OFFSETS,
    names: Sequence[str] = tuple(COLUMNS),
    aborted: Sequence[AbortedTransaction] = (),
) -> list[pa.RecordBatch]:
    view = memoryview(content)
    decoded = list(Decoder("t", 3, names).decode(view, index_batches(view), *window, aborted))
    for table in decoded:
        table.validate(full=True)
    return decoded


def decode(
    content: bytes,
    window: tuple[int, int] = ALL_OFFSETS,
    names: Sequence[str] = tuple(COLUMNS),
    aborted: Sequence[AbortedTransaction] = (),
) -> list[dict[str, Any]]:
    return [row for table in tables(content, window, names, aborted) for row in table.to_pylist()]


def expected(content: bytes, window: tuple[int, int] = ALL_OFFSETS) -> list[dict[str, Any]]:
    return [
        row_of(record, int(header.is_log_append_time))
        for header, batch in iterate_batches(memoryview(content))
        for record in iterate_records(batch)
        if window[0] <= record.offset < window[1]
    ]


def row_of(record: Record, timestamp_type: int) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 3,
        "offset": record.offset,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp_ms),
        "timestampType": timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def test_the_columns_are_those_of_the_source() -> None:
    assert tuple(SCHEMA.names) == tuple(COLUMNS)


@unhurried
@given(st.lists(batches, min_size=1, max_size=5), codecs, st.integers(0, 10**6))
def test_records_come_out_as_they_went_in(groups: list[list[Record]], codec: Compression, base_offset: int) -> None:
    content = record_set(groups, base_offset, codec)
    assert decode(content) == expected(content)


@unhurried
@given(st.lists(batches, min_size=1, max_size=4), codecs, st.integers(0, 130), st.integers(0, 130))
def test_only_the_window_comes_out(groups: list[list[Record]], codec: Compression, first: int, size: int) -> None:
    content = record_set(groups, 0, codec)
    window = (first, first + size)
    assert decode(content, window) == expected(content, window)


@unhurried
@given(batches, st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
def test_only_the_columns_asked_for_come_out_in_their_order(group: list[Record], names: list[str]) -> None:
    content = record_set([group])
    rows = decode(content, names=names)
    assert rows == [{name: row[name] for name in names} for row in expected(content)]
    assert list(rows[0]) == names


@unhurried
@given(st.lists(batches, min_size=2, max_size=6), st.lists(codecs, min_size=6, max_size=6))
def test_codecs_may_be_mixed_in_one_set(groups: list[list[Record]], mixed: list[Compression]) -> None:
    content, offset = b"", 0
    for group, codec in zip(groups, mixed, strict=False):
        content += record_set([group], offset, codec)
        offset += len(group)
    assert decode(content) == expected(content)


@unhurried
@given(st.lists(batches, min_size=1, max_size=3), codecs, st.data())
def test_broken_bytes_are_refused_or_decoded_but_never_worse(
    groups: list[list[Record]], codec: Compression, data: st.DataObject
) -> None:
    """The checksum is made to fit, so that the damage reaches the decoder itself."""
    batch = bytearray(record_set(groups, 0, codec))
    for position in data.draw(st.lists(st.integers(12, len(batch) - 1), min_size=1, max_size=8)):
        batch[position] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        tables(with_crc(bytes(batch)))


def test_a_wrong_crc_is_refused_before_anything_is_decoded() -> None:
    batch = bytearray(record_set([[Record(value=b"x")]], 7))
    batch[-1] ^= 1
    with pytest.raises(ProtocolError, match="offset 7 is corrupt"):
        decode(bytes(batch))


def test_header_keys_that_are_not_text_are_mended() -> None:
    batch = record_set([[Record(value=b"v", headers=[("key", b"1"), ("kéy", b"2"), ("***", b"3")])]])
    (row,) = decode(with_crc(batch.replace(b"***", b"\xff*\xff")))
    assert [header["key"] for header in row["headers"]] == ["key", "kéy", "\ufffd*\ufffd"]


def test_an_undefined_codec_is_refused() -> None:
    with pytest.raises(ProtocolError, match="offset 7 of t-3 is malformed: its compression 5 is not defined"):
        decode(with_attributes(record_set([[Record(value=b"x")]], 7), 5))


def test_bytes_after_the_last_record_are_refused() -> None:
    batch = bytearray(record_set([[Record(value=b"x")]]) + b"\0")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="bytes after the last record"):
        decode(with_crc(bytes(batch)))


def test_control_batches_are_left_out() -> None:
    control = with_attributes(record_set([[Record(key=b"\0\0\0\1", value=b"")]], 1), 0x30)
    rows = decode(record_set([[Record(value=b"a")]], 0) + control + record_set([[Record(value=b"b")]], 2))
    assert [row["value"] for row in rows] == [b"a", b"b"]


def test_append_time_is_the_batchs_and_told_by_the_type() -> None:
    batch = record_set([[Record(timestamp_ms=1_000), Record(timestamp_ms=5_000)]])
    rows = decode(with_attributes(batch, 0x08))
    assert [row["timestampType"] for row in rows] == [1, 1]
    assert {row["timestamp"] for row in rows} == {datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)}


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, -(2**63)])
def test_times_outside_sparks_range_are_held_at_its_ends(timestamp_ms: int) -> None:
    batch = build_batch([Record(value=b"x")])
    batch = with_crc(batch[:27] + timestamp_ms.to_bytes(8, "big", signed=True) + batch[35:])
    (table,) = tables(batch, names=["timestamp"])
    held = table.column(0).cast(pa.int64())[0].as_py()
    assert (held > 0) == (timestamp_ms > 0)
    assert abs(held) > 9.2e18


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    def batch(value: bytes, offset: int, producer_id: int, attributes: int = 0x10, key: bytes | None = None) -> bytes:
        built = build_batch([Record(key=key, value=value)], base_offset=offset, producer_id=producer_id)
        return with_attributes(built, attributes)

    content = (
        batch(b"aborted", 0, 7)
        + batch(b"of another", 1, 8)
        + batch(b"plain", 2, 7, attributes=0)
        + batch(b"", 3, 7, 0x30, key=b"\0\0\0\0")
        + batch(b"later, committed", 4, 7)
    )
    rows = decode(content, aborted=[AbortedTransaction(7, 0)])
    assert [row["value"] for row in rows] == [b"of another", b"plain", b"later, committed"]


def test_what_one_batch_may_unpack_to_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "UNPACKED_BYTES_MAX", 1000)
    for codec in list(Compression)[1:]:
        with pytest.raises(ProtocolError, match="offset 5 of t-3 is malformed: it unpacks to more than 1000 bytes"):
            decode(record_set([[Record(value=b"x" * 2000)]], 5, codec))


def test_how_many_records_one_compressed_batch_may_claim_is_bounded() -> None:
    batch = record_set([[Record(value=b"x")]], 5, Compression.ZSTD)
    claim = (2**31 - 1).to_bytes(4, "big")
    for count in (claim, (decoder_module.RECORDS_MAX + 1).to_bytes(4, "big")):
        lying = with_crc(batch[:23] + (2**31 - 2).to_bytes(4, "big") + batch[27:57] + count + batch[61:])
        with pytest.raises(ProtocolError, match="offset 5 of t-3 is malformed: it claims more than 16777216 records"):
            decode(lying)
    lying = with_crc(batch[:23] + claim + batch[27:57] + (1000).to_bytes(4, "big") + batch[61:])
    with pytest.raises(ProtocolError, match="offset 5 of t-3 is malformed: it claims more records than it can hold"):
        decode(lying)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_what_does_not_unpack_is_told_with_its_place(codec: Compression) -> None:
    batch = record_set([[Record(value=b"x" * 100)]], 5, codec)
    with pytest.raises(ProtocolError, match="batch at offset 5 of t-3 is malformed: "):
        decode(with_crc(batch[:61] + bytes(len(batch) - 61)))


@pytest.mark.parametrize("codec", list(Compression))
def test_offsets_that_do_not_rise_are_refused(codec: Compression) -> None:
    """Forged deltas would give records twice and hide others."""
    records = [Record(value=b"a"), Record(value=b"b"), Record(value=b"c")]
    plain = build_batch(records)
    size = (len(plain) - 61) // 3
    for delta in (0, 1, -1):
        forged = bytearray(plain)
        forged[61 + 2 * size + 3] = zigzag(delta)  # after length, attributes and timestamp delta
        unpacked = bytes(forged[61:])
        content = bytes(forged[:61]) + bytes(compress(codec, unpacked))
        content = content[:8] + (len(content) - 12).to_bytes(4, "big") + content[12:]
        with pytest.raises(ProtocolError, match="offset 0 of t-3 is malformed: the offsets of its records do not rise"):
            decode(with_attributes(content, codec.value))


def zigzag(delta: int) -> int:
    return (delta << 1) ^ (delta >> 31)


def test_offsets_that_compaction_left_out_are_none_too_many() -> None:
    plain = bytearray(build_batch([Record(value=b"a"), Record(value=b"b")]))
    plain[23:27] = (9).to_bytes(4, "big")
    plain[-5] = zigzag(7)
    assert [row["offset"] for row in decode(with_crc(bytes(plain)))] == [0, 7]


def test_a_batch_that_covers_the_one_before_it_is_refused() -> None:
    first, second = record_set([[Record(value=b"x")] * 5], 10), record_set([[Record(value=b"y")] * 5], 12)
    with pytest.raises(ProtocolError, match="batch 1 of a fetched record set is malformed: its offsets run backwards"):
        decode(first + second)


def test_what_came_in_an_earlier_fetch_does_not_come_again() -> None:
    sets = [record_set([[Record(value=b"x")] * 5], 10), record_set([[Record(value=b"x")] * 10], 10)]
    views = [RecordSet(memoryview(content), index_batches(memoryview(content)), ()) for content in sets]
    rows = [row for table in Decoder("t", 3, ["offset"]).decode_all(views, 0, 100) for row in table.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(10, 20))


def test_a_marker_that_is_corrupt_or_packed_ends_nothing() -> None:
    def batch(value: bytes, offset: int, attributes: int, key: bytes | None = None) -> bytes:
        return with_attributes(
            build_batch([Record(key=key, value=value)], base_offset=offset, producer_id=7), attributes
        )

    aborted, marker = batch(b"aborted", 0, 0x10), batch(b"", 1, 0x30, b"\0\0\0\0")
    later = batch(b"later", 2, 0x10)
    with pytest.raises(ProtocolError, match="offset 1 is corrupt"):
        decode(aborted + marker[:-1] + b"x" + later, aborted=[AbortedTransaction(7, 0)])
    bomb = build_batch([Record(key=b"\0\0\0\0")] * 1000, base_offset=1, producer_id=7, compression=Compression.GZIP)
    packed = with_attributes(bomb, 0x31)
    later = batch(b"later", 1001, 0x10)
    assert decode(aborted + packed + later, aborted=[AbortedTransaction(7, 0)]) == []


def test_compressed_batches_share_arrow_batches_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "ARROW_BATCH_BYTES", 300)
    content = record_set([[Record(value=b"x" * 100)] for _ in range(10)], 0, Compression.GZIP)
    assert [table.num_rows for table in tables(content)] == [3, 3, 3, 1]
