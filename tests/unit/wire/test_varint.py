import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.varint import read_uvarint, read_varlong, skip_tagged_fields, uvarint, varlong


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_unsigned_numbers_as_protocol_buffers_writes_them(number: int, encoded: str) -> None:
    assert uvarint(number).hex() == encoded
    assert read_uvarint(b"?" + uvarint(number) + b"!", 1) == (number, 1 + len(encoded) // 2)


@pytest.mark.parametrize(("number", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001")])
def test_signed_numbers_are_zig_zag_coded(number: int, encoded: str) -> None:
    assert varlong(number).hex() == encoded
    assert read_varlong(varlong(number), 0) == (number, len(encoded) // 2)


@given(number=st.integers(0, 2**32 - 1))
def test_unsigned_round_trip(number: int) -> None:
    assert read_uvarint(uvarint(number), 0) == (number, len(uvarint(number)))


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_signed_round_trip(number: int) -> None:
    assert read_varlong(varlong(number), 0) == (number, len(varlong(number)))


@pytest.mark.parametrize("data", ["ffffffffff00", "ffffffff10", "808080808000"])
def test_more_than_32_bits_are_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["ff" * 10 + "00", "ff" * 9 + "02"])
def test_more_than_64_bits_are_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_varlong(bytes.fromhex(data), 0)


@pytest.mark.parametrize("read", [read_uvarint, read_varlong])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_running_out_of_bytes_is_an_index_error(read: object, data: bytes) -> None:
    with pytest.raises(IndexError):
        read(data, 0)  # type: ignore[operator]


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    assert skip_tagged_fields(b"\x01\x02ab\x05\x00rest", 0, 2) == 6
