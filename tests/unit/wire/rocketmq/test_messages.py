"""Stored and batched messages of RocketMQ, and their properties."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.rocketmq.messages import (
    BatchedMessage,
    Host,
    StoredMessage,
    decode_batch,
    decode_messages,
    decode_properties,
    encode_batch,
    encode_message,
    encode_properties,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
HOSTS = st.builds(Host, st.sampled_from([4, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)), INT32)
MESSAGES = st.builds(
    StoredMessage,
    st.text(st.characters(codec="ascii"), max_size=127),
    INT32,
    INT64,
    INT64,
    st.binary(max_size=300),
    st.dictionaries(NAMES, NAMES, max_size=5).map(encode_properties),
    INT32,
    st.integers(0, 0xF),
    INT64,
    HOSTS,
    INT64,
    st.builds(Host, st.binary(min_size=4, max_size=4), INT32),
    INT32,
    INT64,
)
# Laid out by hand after RocketMQ's MessageDecoder: 91 bytes and the three variable fields.
BY_HAND = (
    struct.pack(">iIiiiqqiq", 91 + 2 + 1 + 8, 0xDAA320A7, 0x5E7F4C11 & 0x7FFFFFFF, 3, 7, 5, 1 << 40 | 5, 0, 1_000)
    + bytes([10, 0, 0, 1])
    + struct.pack(">iq", 4_000, 2_000)
    + bytes([127, 0, 0, 1])
    + struct.pack(">iiqi", 10_911, 2, 0, 2)
    + b"hi"
    + b"\x01T"
    + b"\x00\x08TAGS\x01ab\x02"
)


@given(st.lists(MESSAGES, max_size=3))
def test_messages_come_back_as_they_were(messages: list[StoredMessage]) -> None:
    data = b"".join(map(encode_message, messages))
    found = [*decode_messages(data)]
    for message, each in zip(messages, found, strict=True):
        # The address of birth says of itself that it is one of IPv6.
        message.sys_flag = message.sys_flag & ~0x30 | (0x10 if len(message.born_host.address) == 16 else 0)
        assert each == message


def test_the_layout_is_that_of_rocketmq() -> None:
    message = StoredMessage(
        "T", 3, 5, 1 << 40 | 5, b"hi", "TAGS\x01ab\x02", 7, 0, 1_000, Host(bytes([10, 0, 0, 1]), 4_000), 2_000,
        Host(bytes([127, 0, 0, 1]), 10_911), 2,
    )  # fmt: skip
    encoded = encode_message(message)
    assert encoded[:8] == BY_HAND[:8]
    assert encoded[12:] == BY_HAND[12:]


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_off_or_lies_is_an_error_of_the_protocol(
    message: StoredMessage, data: st.DataObject
) -> None:
    encoded = encode_message(message)
    with pytest.raises(ProtocolError):
        [*decode_messages(encoded[: data.draw(st.integers(1, len(encoded) - 1))])]
    damaged = bytearray(encoded)
    at = data.draw(st.integers(0, len(encoded) - 4))
    damaged[at : at + 4] = struct.pack(">i", data.draw(INT32))
    with suppress(ProtocolError):
        [*decode_messages(bytes(damaged))]


@given(st.lists(st.builds(BatchedMessage, INT32, st.binary(max_size=50), NAMES), max_size=4))
def test_batches_come_back_as_they_were(messages: list[BatchedMessage]) -> None:
    assert decode_batch(encode_batch(messages), 4) == messages


@given(st.binary(max_size=100))
def test_no_batch_raises_anything_else(data: bytes) -> None:
    with suppress(ProtocolError):
        decode_batch(data, 10)


def test_a_batch_of_too_many_messages_is_refused() -> None:
    data = encode_batch([BatchedMessage(0, b"", "")] * 11)
    with pytest.raises(ProtocolError, match="more than 10"):
        decode_batch(data, 10)


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"))))
def test_properties_come_back_as_they_were(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def test_java_4_leaves_out_the_last_separator() -> None:
    assert decode_properties("KEYS\x01a b\x02TAGS\x01t") == {"KEYS": "a b", "TAGS": "t"}
    assert decode_properties("\x01no name\x02no value\x02") == {}


def test_what_does_not_fit_its_length_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        encode_message(StoredMessage("T" * 128, 0, 0, 0, b""))
    with pytest.raises(ValueError, match="do not fit"):
        encode_message(StoredMessage("T", 0, 0, 0, b"", "p" * 32_768))
