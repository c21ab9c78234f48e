"""Records as slices: the same records as decoding gives, and none but whole ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_slices import (
    iterate_slices,
    rebuild_batch,
    unpack_records,
    with_timestamp_delta,
)
from hutong.wire.kafka.batch.records import HEADER_BYTES, Record, build_batch, iterate_records, parse_batch_header
from hutong.wire.kafka.varint import varlong

RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.integers(0, 2**40),
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)
CODECS = st.sampled_from(list(Compression))


@given(RECORDS, CODECS, st.integers(-(2**40), 2**40))
def test_slices_are_the_records_and_may_be_moved_in_time(
    records: list[Record], codec: Compression, moved_ms: int
) -> None:
    batch = build_batch(records, base_offset=7, compression=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    header = parse_batch_header(batch)
    data = unpack_records(header, batch, 1 << 20)
    slices = list(iterate_slices(data, header.record_count, header.last_offset_delta))
    assert [(piece.key, piece.is_tombstone) for piece in slices] == [
        (record.key, record.value is None) for record in records
    ]
    kept = slices[::2]
    rebuilt = rebuild_batch(
        header,
        b"".join(with_timestamp_delta(data, piece, piece.timestamp_delta_ms - moved_ms) for piece in kept),
        len(kept),
        attributes=header.attributes,
        base_timestamp_ms=header.base_timestamp_ms + moved_ms,
        max_timestamp_ms=header.max_timestamp_ms,
    )
    assert list(iterate_records(rebuilt)) == list(iterate_records(batch))[::2]
    again = parse_batch_header(rebuilt)
    assert (again.base_offset, again.last_offset, again.base_sequence) == (7, 6 + len(records), 3)
    assert (again.producer_id, again.producer_epoch, again.compression) == (5, 1, codec)


@given(st.binary(max_size=60), st.integers(1, 2**31 - 1))
def test_whatever_the_bytes_a_look_ends(data: bytes, count: int) -> None:
    with contextlib.suppress(ProtocolError):
        assert len(list(iterate_slices(data, count, count - 1))) == count


@given(RECORDS)
def test_records_cut_anywhere_are_refused(records: list[Record]) -> None:
    batch = build_batch(records)
    header = parse_batch_header(batch)
    data = unpack_records(header, batch, 1 << 20)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            list(iterate_slices(data[:end], header.record_count, header.last_offset_delta))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 3), (-1, 0)])
def test_forged_offset_deltas_are_refused(deltas: tuple[int, int]) -> None:
    pieces = [build_batch([Record()])[HEADER_BYTES:] for _ in deltas]
    data = b"".join(piece[:3] + varlong(delta) + piece[4:] for piece, delta in zip(pieces, deltas, strict=True))
    with pytest.raises(ProtocolError, match="offset delta"):
        list(iterate_slices(data, 2, 2))
