"""TLS as a handler: cut anywhere, plaintext comes out; hostile bytes end their connection, with TLS's alert."""

import ssl
from itertools import pairwise
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor import (
    ConnectionPipeline,
    LineFrames,
    PipelineHandler,
    PipelineLink,
    SniffHandler,
    TlsHandler,
    TlsOpened,
    is_tls,
)
from hutong.reactor.pipeline.tls import EARLY_BYTES_MAX, HANDSHAKE_READS_MAX

AUTHORITY = trustme.CA()
INSIDE, OUTSIDE = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
AUTHORITY.issue_cert("here").configure_cert(INSIDE)
AUTHORITY.configure_trust(OUTSIDE)
INSIDE.num_tickets = 0


class Echo(PipelineHandler):
    """The last handler: keeps values and events, and answers each line."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.events: list[object] = []

    def inbound(self, value: bytes, link: PipelineLink) -> None:
        self.values.append(value)
        link.pass_outbound(value)
        if value == b"close":
            link.pipeline.close()

    def event(self, event: object, link: PipelineLink) -> None:
        self.events.append(event)


class Client:
    """The other side, without a socket."""

    def __init__(self, context: ssl.SSLContext = OUTSIDE) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="here")
        self.is_open = False

    def shake_hands(self) -> bytes:
        try:
            self.tls.do_handshake()
            self.is_open = True
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self.incoming.write(data)
        plain = b""
        try:
            while True:
                part = self.tls.read(65_536)
                if not part:
                    return plain + b"<end>"
                plain += part
        except ssl.SSLWantReadError:
            return plain
        except ssl.SSLZeroReturnError:
            return plain + b"<end>"


def sent_by(pipeline: ConnectionPipeline) -> bytes:
    return b"".join(map(bytes, pipeline.data_to_send()))


def opened(*handlers: PipelineHandler, cuts: int = 10_000) -> tuple[ConnectionPipeline, Client]:
    """A pipeline and a client whose handshake is done; the client's bytes come in pieces of this size."""
    pipeline, client = ConnectionPipeline(handlers), Client()
    pipeline.open(0)
    for _ in range(4):
        data = client.shake_hands()
        for start in range(0, len(data), cuts):
            pipeline.receive_data(data[start : start + cuts], 0)
        client.incoming.write(sent_by(pipeline))
    assert client.is_open
    return pipeline, client


@pytest.mark.parametrize("cuts", [50, 100, 10_000])  # a ClientHello of OpenSSL 3.6 has 1.6 KB: ML-KEM, too
def test_a_handshake_in_pieces_and_lines_both_ways(cuts: int) -> None:
    echo = Echo()
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), echo, cuts=cuts)
    assert echo.events[1:] == [TlsOpened(None)]
    assert pipeline.bytes_held == 0
    pipeline.receive_data(client.encrypt(b"one\ntwo\nclose\nlate\n"), 0)
    assert echo.values == [b"one", b"two", b"close"]
    assert client.decrypt(sent_by(pipeline)) == b"one\ntwo\nclose\n<end>"


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 600)))
def test_the_cuts_make_no_difference(lines: list[bytes], cuts: list[int]) -> None:
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines if line != b"close"]
    echo = Echo()
    pipeline, client = opened(SniffHandler(choose), LineFrames(), echo)
    data = b"".join(client.encrypt(line + b"\n") for line in lines)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, stop in pairwise(bounds):
        pipeline.receive_data(data[start:stop], 0)
    assert echo.values == lines
    assert client.decrypt(sent_by(pipeline)) == b"".join(line + b"\n" for line in lines)


def choose(first: bytes) -> list[PipelineHandler]:
    return [TlsHandler(INSIDE)] if is_tls(first) else []


def test_one_port_for_plain_and_tls() -> None:
    echo = Echo()
    pipeline = ConnectionPipeline([SniffHandler(choose), LineFrames(), echo])
    pipeline.receive_data(b"plain\n", 0)
    assert (echo.values, sent_by(pipeline), pipeline.names) == ([b"plain"], b"plain\n", ["LineFrames", "Echo"])


def test_what_is_sent_early_waits_for_the_handshake() -> None:
    class Greets(Echo):
        def event(self, event: object, link: PipelineLink) -> None:
            if not isinstance(event, TlsOpened):
                link.pass_outbound(b"welcome")

    pipeline, client = ConnectionPipeline([TlsHandler(INSIDE), LineFrames(), Greets()]), Client()
    pipeline.open(0)
    assert sent_by(pipeline) == b""
    for _ in range(3):
        pipeline.receive_data(client.shake_hands(), 0)
        client.incoming.write(sent_by(pipeline))
    assert client.decrypt(b"") == b"welcome\n"


def test_the_peers_goodbye_ends_the_connection() -> None:
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), Echo())
    data = client.encrypt(b"last\n")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    pipeline.receive_data(data + client.outgoing.read(), 0)
    assert pipeline.is_closing
    assert pipeline.failure is None


def test_a_held_pipeline_decrypts_no_more() -> None:
    echo = Echo()
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), echo)
    pipeline.hold()
    pipeline.receive_data(client.encrypt(b"one\n") + client.encrypt(b"two\n"), 0)
    assert echo.values == []
    pipeline.release()
    pipeline.resume(0)
    assert echo.values == [b"one", b"two"]


# Hostile bytes.


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\x00\x05aaaaa", b"\x16" + b"\xff" * 99]
)
def test_no_handshake_is_the_peers_fault(data: bytes) -> None:
    pipeline = ConnectionPipeline([TlsHandler(INSIDE), LineFrames(), Echo()])
    pipeline.receive_data(data, 0)
    assert str(pipeline.failure).startswith("the TLS handshake failed")
    assert pipeline.bytes_held == 0


def test_a_client_that_does_not_trust_us_is_noted() -> None:
    pipeline, client = ConnectionPipeline([TlsHandler(INSIDE), Echo()]), Client(ssl.create_default_context())
    pipeline.receive_data(client.shake_hands(), 0)
    client.incoming.write(sent_by(pipeline))
    with pytest.raises(ssl.SSLCertVerificationError):
        client.tls.do_handshake()
    pipeline.receive_data(client.outgoing.read(), 0)
    assert "unknown ca" in str(pipeline.failure)


def test_an_altered_record_is_answered_with_an_alert() -> None:
    echo = Echo()
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), echo)
    record = bytearray(client.encrypt(b"secret\n"))
    record[-1] ^= 1
    pipeline.receive_data(bytes(record), 0)
    assert str(pipeline.failure).startswith("broken TLS")
    assert echo.values == []
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        client.decrypt(sent_by(pipeline))


def test_nothing_is_read_behind_broken_tls_even_if_the_fault_is_taken() -> None:
    class Takes(Echo):
        def failed(self, error: Any, link: PipelineLink) -> None:
            self.events.append(str(error))

    takes = Takes()
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), takes)
    good = client.encrypt(b"good\n")
    pipeline.receive_data(b"\x17\x03\x03\x00\x05aaaaa", 0)
    pipeline.receive_data(good, 0)
    pipeline.resume(0)
    assert takes.values == []
    assert takes.events[-1].startswith("broken TLS")  # type: ignore[attr-defined]


def test_a_handshake_byte_by_byte_counts_as_a_begun_frame_and_is_bounded() -> None:
    pipeline = ConnectionPipeline([TlsHandler(INSIDE), Echo()])
    hello = Client().shake_hands()
    for number in range(HANDSHAKE_READS_MAX):
        pipeline.receive_data(hello[number : number + 1], 0)
        assert pipeline.bytes_held == number + 1
    pipeline.receive_data(hello[HANDSHAKE_READS_MAX : HANDSHAKE_READS_MAX + 1], 0)
    assert "in more than 64 pieces" in str(pipeline.failure)


def test_a_begun_record_counts_as_a_begun_frame() -> None:
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), Echo())
    record = client.encrypt(b"one\n")
    pipeline.receive_data(record[:10], 0)
    assert pipeline.bytes_held == 10
    pipeline.receive_data(record[10:], 0)
    assert pipeline.bytes_held == 0


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_end_in_a_fault_of_the_peer_or_wait(data: bytes, at: int) -> None:
    pipeline, client = opened(TlsHandler(INSIDE), LineFrames(), Echo())
    record = client.encrypt(b"one\n")
    pipeline.receive_data(record[:at] + data, 0)
    pipeline.receive_data(data, 0)
    pipeline.check_invariants()
    assert pipeline.bytes_held <= len(record) + 2 * len(data)


def test_a_handler_without_a_context_is_named() -> None:
    wrong: Any = "server.pem"
    with pytest.raises(TypeError, match="server_context"):
        TlsHandler(wrong)


def test_a_peer_that_shakes_no_hands_does_not_collect_what_is_sent_to_everybody() -> None:
    pipeline = ConnectionPipeline([TlsHandler(INSIDE), LineFrames()])
    pipeline.open(0)
    line = bytes(1023)
    for _ in range(EARLY_BYTES_MAX // 1024):
        pipeline.send(line)
    assert not pipeline.is_closing
    pipeline.send(line)
    assert (pipeline.is_closing, pipeline.failure, sent_by(pipeline)) == (True, None, b"")
