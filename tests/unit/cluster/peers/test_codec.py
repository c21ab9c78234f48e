"""Replica messages, questions and handshakes as bytes: whole, cut, garbled, and larger than remoting's own bound."""

import struct
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.peers import codec
from hutong.cluster.peers.codec import GROUP_NAME, decode_message, encode_message, frame_message
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.peers.questions import answer_command, answer_of, question_command, question_of
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, ProtocolError, Refused
from hutong.replication.replica_messages import ChunksShipped, CommitTold, ReplicaMessage
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.command import IS_ONEWAY, Command, decode, encode

MEBIBYTE = 1024 * 1024
groups = st.from_regex(GROUP_NAME, fullmatch=True)
numbers = st.integers(codec.INTEGER_MIN, (1 << 63) - 1)


def values_of(kind: type[ReplicaMessage]) -> st.SearchStrategy[ReplicaMessage]:
    """Any message of a kind, by its fields."""
    by_type: dict[Any, st.SearchStrategy[Any]] = {int: numbers, str: groups, Buffer: st.binary(max_size=10_000)}
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: by_type[hints[name]] for name in kind.__struct_fields__})


replica_messages = st.one_of([values_of(kind) for kind in get_args(ReplicaMessage)])


def framed(message: ReplicaMessage, frame_bytes_max: int = 64 * MEBIBYTE) -> bytes:
    return b"".join(frame_message(message, frame_bytes_max))


def test_every_message_has_a_code() -> None:
    assert set(codec._MESSAGES.values()) == set(get_args(ReplicaMessage))
    assert all(codec.MESSAGE_CODE_MIN <= code <= codec.MESSAGE_CODE_MAX for code in codec._MESSAGES)


@given(replica_messages)
def test_a_message_comes_back(message: ReplicaMessage) -> None:
    frame = framed(message)
    assert struct.unpack_from(">I", frame) == (len(frame) - 4,)
    command = decode(frame[4:])
    assert command.is_oneway
    assert decode_message(command) == message
    assert frame == b"".join(encode(encode_message(message)))


@given(replica_messages, st.data())
def test_a_header_of_another_length_is_refused(message: ReplicaMessage, data: st.DataObject) -> None:
    command = encode_message(message)
    header = command.ext_block or b""
    end = data.draw(st.integers(0, len(header) - 1))
    for wrong in (header[:end], header + b"\0"):
        with pytest.raises(ProtocolError):
            decode_message(Command(command.code, ext_block=wrong, body=command.body))


@given(st.sampled_from([*codec._MESSAGES, 0x5000, 0x5FFE]), st.binary(max_size=100), st.binary(max_size=10))
def test_garbage_is_a_message_or_refused(code: int, header: bytes, body: bytes) -> None:
    try:
        message = decode_message(Command(code, ext_block=header, body=body))
    except ProtocolError:
        return
    again = encode_message(message)
    assert (again.ext_block, again.body) == (header, body)


@pytest.mark.parametrize("name", ["", "Days", "../days", "days/1", "1days", "d" * 65, "days\n", "däys", "\0"])
def test_what_is_no_name_of_a_group(name: str) -> None:
    with pytest.raises(ValueError, match="group"):
        encode_message(CommitTold(name, 1, 2))
    header = encode_message(CommitTold("days", 1, 2)).ext_block or b""
    data = name.encode()
    wrong = header[: -len("days") - 1] + bytes([len(data)]) + data
    with pytest.raises(ProtocolError):
        decode_message(Command(encode_message(CommitTold("days", 1, 2)).code, ext_block=wrong))


@pytest.mark.parametrize("number", [-2, 1 << 63])
def test_a_number_that_none_has(number: int) -> None:
    with pytest.raises(ValueError, match="number"):
        encode_message(CommitTold("days", 1, number))


def test_a_number_below_the_least_is_refused() -> None:
    command = encode_message(CommitTold("days", 1, 7))
    header = command.ext_block or b""
    with pytest.raises(ProtocolError):
        decode_message(Command(command.code, ext_block=struct.pack(">q", -2) + header[8:]))


def test_content_is_not_copied_and_may_be_larger_than_a_frame_of_rocketmq() -> None:
    content = memoryview(bytes(20 * MEBIBYTE))
    head, body = frame_message(ChunksShipped("days", 1, 0, 0, content), 64 * MEBIBYTE)
    assert body is content
    message = decode_message(decode(memoryview(bytes(head) + bytes(body))[4:]))
    assert isinstance(message, ChunksShipped)
    assert isinstance(message.content, memoryview)
    with pytest.raises(ValueError, match="frame"):
        framed(ChunksShipped("days", 1, 0, 0, content), MEBIBYTE)


ext_fields = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), max_size=5)


@given(st.integers(1, 0x3FFF), ext_fields, st.binary(max_size=100))
def test_a_question_comes_back(code: int, asked: dict[str, str], body: bytes) -> None:
    question = PeerMessage(code, asked, body)
    frame = b"".join(encode(question_command(question)))
    assert question_of(decode(frame[4:])) == question
    answer = PeerMessage(0, asked, body)
    frame = b"".join(encode(answer_command(answer)))
    assert answer_of(decode(frame[4:])) == answer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(ErrorCode.NOT_CONTROLLER, "ask node 2"), ErrorCode.NOT_CONTROLLER),
        (Expired("late"), ErrorCode.REQUEST_TIMED_OUT),
        (LimitExceeded("questions_max", 3), ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (HutongError("broken"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_comes_back_as_a_refusal(error: HutongError, code: ErrorCode) -> None:
    refused = answer_of(decode(b"".join(encode(answer_command(error)))[4:]))
    assert isinstance(refused, Refused)
    assert (refused.code, refused.message) == (code, str(error))


@given(st.integers(-(1 << 15), (1 << 15) - 1), st.binary(max_size=60) | st.none(), st.text(max_size=5) | st.none())
def test_garbage_is_an_answer_or_an_error(code: int, ext_block: bytes | None, remark: str | None) -> None:
    outcome = answer_of(Command(code, flag=IS_ONEWAY, ext_block=ext_block, remark=remark))
    assert isinstance(outcome, PeerMessage | Refused | ProtocolError)


@pytest.mark.parametrize("code", ["", "x", "-", "²", "9" * 5_000])
def test_a_refusal_without_a_code(code: str) -> None:
    assert isinstance(answer_of(Command(4, fields={"code": code})), ProtocolError)


@pytest.mark.parametrize("code", [0, -1, 0x4000, 0x5001])
def test_a_code_that_no_question_has(code: int) -> None:
    with pytest.raises(ValueError, match="code of a question"):
        question_command(PeerMessage(code, {}))
