"""Targets for what one node hears of another: frames of a handshake from anybody, and those of a link."""

from collections.abc import Iterator

from tests.fuzz.target import Target

from hutong.cluster.peers import codec
from hutong.cluster.peers.handshake.machine import DialledHandshake, DiallingHandshake
from hutong.cluster.peers.handshake.messages import CHALLENGE, HELLO, HandshakeRefused, PeerRefusal, encode_handshake
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.peers.questions import answer_command, answer_of, question_command, question_of
from hutong.foundation.errors import ProtocolError, Refused
from hutong.replication.replica_messages import AskedToJoin, ChunksShipped, CommitTold
from hutong.server.spans.messages import (
    ShownSpan,
    SpansAnswer,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from hutong.wire.rocketmq.command import decode, encode

TRACE = "a" * 32
ONE, TWO = PeerIdentity("cluster", 1, 11), PeerIdentity("cluster", 2, 22)


def read_link_frame(data: bytes) -> object:
    command = decode(memoryview(data))
    if command.is_response:
        return answer_of(command)
    if codec.MESSAGE_CODE_MIN <= command.code <= codec.MESSAGE_CODE_MAX:
        return codec.decode_message(command)
    return question_of(command)


def link_frames() -> Iterator[bytes]:
    commands = [
        codec.encode_message(AskedToJoin("days-1", 3, 1 << 62, 4_096, -1)),
        codec.encode_message(ChunksShipped("days", 3, 4_096, 0, b"content")),
        codec.encode_message(CommitTold("metadata", 1, 0)),
        question_command(PeerMessage(7, {"name": "value"}, b"body")),
        answer_command(PeerMessage(0, {"name": "value"})),
        answer_command(Refused(41, "ask node 2")),
    ]
    for command in commands:
        yield b"".join(encode(command))[4:]


def greet(data: bytes) -> object:
    """The first byte chooses the message; the rest of it goes to both sides."""
    for machine in (DialledHandshake(TWO, b"s", b"2" * 32), DiallingHandshake(ONE, b"s", b"1" * 32, 2)):
        machine.begin()
        try:
            machine.receive(HELLO + data[0] % 7 if data else HELLO, data[1:])
        except (ProtocolError, HandshakeRefused):
            assert machine.partner is None
            assert not machine.is_done
    return None


def greetings() -> Iterator[bytes]:
    dialling, dialled = DiallingHandshake(ONE, b"s", b"1" * 32, 2), DialledHandshake(TWO, b"s", b"2" * 32)
    [(_, hello)] = dialling.begin()
    [(_, challenge)] = dialled.receive(HELLO, hello)
    yield b"\0" + hello
    yield bytes([CHALLENGE - HELLO]) + challenge
    yield b"\2" + b"p" * 32
    yield b"\5" + encode_handshake(PeerRefusal(3))


def read_spans(data: bytes) -> object:
    """A question for spans, or an answer: the first byte says which."""
    return decode_question(data[1:]) if data[:1] == b"q" else encode_answer(decode_answer(data[1:], [TRACE]))


def spans() -> Iterator[bytes]:
    yield b"q" + encode_question([TRACE, "b" * 32])
    span = ShownSpan(TRACE, "1" * 16, "2" * 16, "send <b>", "client", 1.5, 0.25, "broke", (("name", "value"),))
    for answer in (SpansAnswer(), SpansAnswer(True, True, (span, span))):
        yield b"a" + encode_answer(answer)


TARGETS = [
    Target("peer-frame", read_link_frame, link_frames),
    Target("peer-handshake", greet, greetings),
    Target("peer-spans", read_spans, spans),
]
