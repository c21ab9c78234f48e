"""What a hostile or broken client can do to a TCP event-bus bridge: the documented answer, nothing left, no long stall.

Each test ends with a look at the bus: no registration, no awaited reply, no parked wait of any client. How long the
loop may stall meanwhile is measured in `test_bridge_stalls`, in a process that does nothing else.
"""

import json
import struct
from collections.abc import Iterator

import pytest
from tests.support.bridge import OPEN, BridgedBus, RawClient, bridged_bus

from hutong.wire.vertx.codes import Code

pytestmark = pytest.mark.fault
FRAME_BYTES_MAX = 256 * 1024


@pytest.fixture(scope="module")
def shared() -> Iterator[BridgedBus]:
    with bridged_bus() as running:
        yield running


@pytest.fixture
def bus(shared: BridgedBus) -> Iterator[BridgedBus]:
    yield shared
    shared.must_be_empty()


@pytest.fixture
def client(bus: BridgedBus) -> Iterator[RawClient]:
    with RawClient(bus.port) as connected:
        yield connected


def body_of(body: bytes) -> bytes:
    return b'{"type":"send","address":"echo","replyAddress":"r","body":' + body + b"}"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "invalid_json"),
        (b"{nope", "invalid_json"),
        (b"[]", "invalid_json"),
        (b'{"type":"ping"} more', "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (body_of(b'"\\ud800"'), "invalid_json"),
        (body_of(b'"\\udfff\\ud800"'), "invalid_json"),
        (body_of(b'"\xed\xa0\x80"'), "invalid_json"),
        (body_of(b"[" * 65 + b"]" * 65), "invalid_json"),
        (body_of(b"[" * 100_000 + b"]" * 100_000), "invalid_json"),
        (body_of(b'{"a":' * 30_000 + b"1" + b"}" * 30_000), "invalid_json"),
        (body_of(b"9" * 250_000), "invalid_json"),
        (body_of(b"1e400"), "invalid_json"),
        (b"{}", "missing_type"),
        (b'{"address":"echo"}', "missing_type"),
        (b'{"type":"foo","address":"echo"}', "unknown_type"),
        (b'{"type":"message","address":"echo"}', "unknown_type"),
        (b'{"type":{},"address":"echo"}', "unknown_type"),
        (b'{"type":"send","body":1}', "missing_address"),
        (b'{"type":"register","address":null}', "missing_address"),
        (b'{"type":"publish","address":7}', "missing_address"),
        (b'{"type":"send","address":""}', "missing_address"),
        (b'{"type":"send","address":"' + b"a" * 201 + b'"}', "max_address_length_reached"),
        (b'{"type":"register","address":"' + b"a" * 250_000 + b'"}', "max_address_length_reached"),
        (b'{"type":"send","address":"echo","replyAddress":[]}', "invalid_reply_address"),
        (b'{"type":"send","address":"echo","headers":[]}', "invalid_headers"),
        (b'{"type":"send","address":"echo","headers":{"h":null}}', "invalid_headers"),
        (b'{"type":"send","address":"echo","headers":{"h":"' + b"v" * 250_000 + b'"}}', "invalid_headers"),
        (b'{"type":"send","address":"echo","headers":{"timeout":0}}', "invalid_headers"),
        (b'{"type":"send","address":"echo","failureCode":{}}', "invalid_failure"),
        (b'{"type":"send","address":"__hutong.reply.1.1","body":1}', "access_denied"),
        (b'{"type":"register","address":"__hutong.reply.1.1"}', "access_denied"),
        (b'{"type":"unregister","address":"never.registered"}', "unknown_address"),
        (b'{"type":"send","address":"echo","body":1,"headers":{"codecName":"nobody has this"}}', "not_delivered"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:50].decode(errors="replace"),
)
def test_a_bad_frame_is_answered_and_the_connection_goes_on(client: RawClient, frame: bytes, message: str) -> None:
    client.send_frame(frame)
    refused = client.receive()
    assert refused["type"] == "err"
    assert refused["message"] == message
    client.must_be_alive()


def test_thousands_of_headers_are_refused_and_a_hundred_are_not(client: RawClient) -> None:
    for count, is_fine in ((100, True), (101, False), (15_000, False)):
        headers = {f"h{number}": "v" for number in range(count)}
        answer = client.ask(type="send", address="headers", replyAddress="r", headers=headers)
        assert (answer["type"] == "message") is is_fine
        assert answer["address"] == "r"
        assert is_fine or answer["message"] == "invalid_headers"


@pytest.mark.parametrize("length", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1, 0x47455420])  # the last one is "GET "
def test_a_wrong_length_is_told_and_closes(bus: BridgedBus, length: int) -> None:
    with RawClient(bus.port) as client:
        client.socket.sendall(struct.pack(">i", length) + b"x" * 100)
        assert client.receive() == {"type": "err", "message": "frame_too_large"}
        client.must_be_closed()


def test_frames_before_a_wrong_length_are_served(bus: BridgedBus) -> None:
    with RawClient(bus.port) as client:
        ping = b'{"type":"ping"}'
        client.socket.sendall((struct.pack(">i", len(ping)) + ping) * 200 + struct.pack(">i", -1))
        assert [client.receive()["type"] for _ in range(200)] == ["pong"] * 200
        assert client.receive()["message"] == "frame_too_large"
        client.must_be_closed()


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 40])
def test_a_frame_cut_off_leaves_nothing(bus: BridgedBus, cut: int) -> None:
    frame = body_of(b'"some text that is long enough to be cut"')
    with RawClient(bus.port) as client:
        client.must_be_alive()
        client.socket.sendall((struct.pack(">i", len(frame)) + frame)[:cut])


def test_a_frame_byte_by_byte_is_a_frame(client: RawClient) -> None:
    frame = body_of(b'"slowly"')
    for byte in struct.pack(">i", len(frame)) + frame:
        client.socket.sendall(bytes([byte]))
    assert client.receive()["body"] == "slowly"


def test_the_largest_frame_passes(client: RawClient) -> None:
    text = "x" * (FRAME_BYTES_MAX - len(body_of(b'""')))
    answer = client.ask(type="send", address="echo", replyAddress="r", body=text[:-100])
    assert len(answer["body"]) == len(text) - 100


def test_a_handler_that_raises_fails_the_request_alone(bus: BridgedBus, client: RawClient) -> None:
    answer = client.ask(type="send", address="raise", replyAddress="r", body=1)
    assert answer == {
        "type": "err", "address": "r", "sourceAddress": "raise", "failureCode": -1,
        "failureType": "RECIPIENT_FAILURE", "message": "the handler raised an error",
    }  # fmt: skip
    client.must_be_alive()


def test_a_request_that_nobody_answers_times_out(client: RawClient) -> None:
    answer = client.ask(type="send", address="silent", replyAddress="r", headers={"timeout": 50})
    assert (answer["address"], answer["failureType"], answer["failureCode"]) == ("r", "TIMEOUT", -1)


def test_ten_thousand_registrations_from_one_socket(bus: BridgedBus) -> None:
    with RawClient(bus.port) as client:
        frames = [json.dumps({"type": "register", "address": f"a{number}"}).encode() for number in range(10_000)]
        client.socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        refused = [client.receive() for _ in range(9_000)]
        assert {answer["message"] for answer in refused} == {"max_handlers_reached"}
        assert bus.bridge.figures.registrations == 1_000
        client.must_be_alive()
    bus.must_be_empty()


def test_a_client_that_vanishes_with_everything_open(bus: BridgedBus) -> None:
    with RawClient(bus.port) as client, RawClient(bus.port) as other:
        for number in range(100):
            client.send(type="register", address=f"svc{number}")
            client.send(type="send", address="silent", replyAddress=f"r{number}")
        client.must_be_alive()
        for number in range(100):
            other.send(type="send", address=f"svc{number}", replyAddress=f"o{number}", body=number)
        for _ in range(100):
            client.receive()
        client.socket.shutdown(2)
        failed = [other.receive() for _ in range(100)]
        assert {answer["failureType"] for answer in failed} == {"RECIPIENT_FAILURE"}
        assert all("has gone" in answer["message"] for answer in failed)


def test_a_client_that_never_reads_is_closed_and_its_neighbours_are_served(bus: BridgedBus) -> None:
    text = "x" * 50_000
    with RawClient(bus.port, receive_bytes=4096) as slow, RawClient(bus.port) as reader:
        for client in (slow, reader):
            client.send(type="register", address="news")
            client.must_be_alive()
        for number in range(400):
            reader.send(type="publish", address="news", body=f"{number} {text}")
            assert reader.receive()["body"].startswith(f"{number} ")
        bus.until(lambda: bus.bridge.figures.clients == 1, "the end of the slow client")
        received = []
        try:
            while True:
                received.append(slow.receive())
        except EOFError:
            pass
        numbers = [int(message["body"].split()[0]) for message in received if message["type"] == "message"]
        assert numbers == list(range(len(numbers))), "what it was given is whole and in order"


def test_a_client_that_asks_without_reading_is_closed() -> None:
    def ask_on(client: RawClient) -> None:
        for number in range(10_000):
            client.send(type="send", address="echo", replyAddress=f"r{number}", body="x" * 100_000)

    with bridged_bus({**OPEN, "bridge.slow_client_timeout_ms": "500"}) as bus:
        with RawClient(bus.port, receive_bytes=4096) as client, pytest.raises(ConnectionError):
            ask_on(client)
        assert bus.call(lambda: bus.bridge.figures.refused_total[Code.SLOW_CLIENT]) == 1


def test_a_flood_of_pings_is_answered_turn_by_turn(bus: BridgedBus) -> None:
    ping = b'{"type":"ping"}'
    with RawClient(bus.port) as client, RawClient(bus.port) as neighbour:
        client.socket.sendall((struct.pack(">i", len(ping)) + ping) * 20_000)
        neighbour.must_be_alive()
        for _ in range(20_000):
            assert client.receive_bytes() == b'{"type":"pong"}'


def test_ten_thousand_open_requests_and_one_more(bus: BridgedBus) -> None:
    with RawClient(bus.port) as client:
        frames = [
            json.dumps({"type": "send", "address": "silent", "replyAddress": f"r{number}"}).encode()
            for number in range(10_001)
        ]
        client.socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        refused = client.receive()
        assert (refused["address"], refused["failureType"]) == ("r10000", "ERROR")
        assert "requests_open_max" in refused["message"]


def test_a_slow_expression_is_no_way_in() -> None:
    permitted = {"bridge.permit_in": (".*a.*b", "echo"), "bridge.permit_out": ()}
    with bridged_bus(permitted) as bus, RawClient(bus.port) as client:
        for number in range(200):
            client.send(type="send", address="a" * 190 + str(number))
        assert {client.receive()["message"] for _ in range(200)} == {"access_denied"}
