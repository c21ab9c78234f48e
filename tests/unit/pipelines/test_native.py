import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.unhurried import unhurried

from hutong.pipelines.native import (
    Bytes,
    bytes_of,
    compiled,
    discard_stale_code,
    pointer_to,
    read_varint,
    read_varlong,
    varint_size,
    write_varint,
)
from hutong.wire.kafka.varint import varlong

INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@compiled
def varint_at(data: Bytes, position: int, end: int) -> tuple[int, int]:
    return read_varint(pointer_to(data), position, end)


@compiled
def varlong_at(data: Bytes, position: int, end: int) -> tuple[int, int]:
    return read_varlong(pointer_to(data), position, end)


@compiled
def write_at(data: Bytes, position: int, number: int) -> tuple[int, int]:
    return write_varint(pointer_to(data), position, number), varint_size(number)


@unhurried
@given(INT32)
def test_a_varint_is_read_as_the_wire_writes_it(number: int) -> None:
    encoded = varlong(number)
    assert varint_at(bytes_of(encoded + b"\xff"), 0, len(encoded)) == (number, len(encoded))


@unhurried
@given(INT64)
def test_a_varlong_is_read_as_the_wire_writes_it(number: int) -> None:
    encoded = varlong_bytes(number)
    assert varlong_at(bytes_of(encoded + b"\xff"), 0, len(encoded)) == (number, len(encoded))


def varlong_bytes(number: int) -> bytes:
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    rest &= 2**64 - 1
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes(encoded) + bytes([rest])


@unhurried
@given(INT64, st.data())
def test_a_number_that_is_cut_short_has_no_position(number: int, data: st.DataObject) -> None:
    encoded = varlong_bytes(number)
    cut = data.draw(st.integers(min_value=0, max_value=len(encoded) - 1))
    assert varlong_at(bytes_of(encoded), 0, cut)[1] == -1
    assert varint_at(bytes_of(encoded), 0, cut)[1] == -1


@pytest.mark.parametrize("encoded", [b"\xff" * 5 + b"\x00", b"\xff\xff\xff\xff\x1f", b"\x80" * 5])
def test_more_than_32_bits_is_no_varint(encoded: bytes) -> None:
    assert varint_at(bytes_of(encoded), 0, len(encoded))[1] == -1


@pytest.mark.parametrize("encoded", [b"\xff" * 10, b"\xff" * 9 + b"\x02", b"\x80" * 11])
def test_more_than_64_bits_is_no_varlong(encoded: bytes) -> None:
    assert varlong_at(bytes_of(encoded), 0, len(encoded))[1] == -1


def test_a_failed_read_is_handed_on() -> None:
    assert varint_at(bytes_of(b"\x02"), -1, 1) == (0, -1)
    assert varlong_at(bytes_of(b"\x02"), -1, 1) == (0, -1)


@unhurried
@given(INT32)
def test_a_varint_is_written_as_the_wire_writes_it(number: int) -> None:
    target = np.zeros(8, np.uint8)
    position, size = write_at(target, 1, number)
    assert target[1:position].tobytes() == varlong(number)
    assert size == position - 1


def test_code_older_than_a_source_is_discarded(tmp_path: Path) -> None:
    stale, source, fresh = tmp_path / "a.nbi", tmp_path / "a.py", tmp_path / "b.nbc"
    for age, path in enumerate((fresh, source, stale)):
        path.write_bytes(b"")
        os.utime(path, (1000 - age, 1000 - age))
    discard_stale_code(tmp_path)
    assert (stale.exists(), fresh.exists(), source.exists()) == (False, True, True)
