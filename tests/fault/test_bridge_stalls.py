"""How long a client of the TCP bridge can make a node's loop not turn: docs/bridges.md states the figure.

The node is a process of its own, which measures itself (`runtime/stalls.py`) and is asked by its page of metrics: what
a test does in its own process counts for nothing.
"""

import contextlib
import json
import struct
from collections.abc import Callable, Iterator

import pytest
from bench.processes import ReadyProcess
from bench.targets import hutong_command
from tests.support.bridge import RawClient
from tests.support.stalls import stalls

pytestmark = pytest.mark.fault
REGISTRATIONS = 10_000
LISTENERS = 1_000
ATTEMPTS_MAX = 4
FRAME_BYTES = 250_000


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    folder = tmp_path_factory.mktemp("node")
    command = hutong_command(folder / "data", "127.0.0.1:0")
    bridge = ("--tcp-bridge", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--bridge-permit", "in=[a-r].*")
    log_path = str(folder / "node.log")
    permits = ("--bridge-permit", "in=slow.*a.*b", "--bridge-permit", "out=.*")
    with ReadyProcess([*command, *bridge, *permits], log_path=log_path) as running:
        yield running


def port_of(node: ReadyProcess) -> int:
    return int(node.fields["tcp-bridge"].rpartition(":")[2])


def registrations(port: int) -> None:
    frames = [json.dumps({"type": "register", "address": f"a{number}"}).encode() for number in range(REGISTRATIONS)]
    with RawClient(port) as client:
        client.socket.sendall(framed(*frames))
        for _ in range(REGISTRATIONS - 1_000):
            assert client.receive()["message"] == "max_handlers_reached"
    with RawClient(port) as client:  # the first one's registrations are gone when this is answered
        client.must_be_alive()


def flood(port: int) -> None:
    with RawClient(port) as client:
        client.socket.sendall(framed(b'{"type":"ping"}') * 20_000)
        for _ in range(20_000):
            client.receive_bytes()


def slow_expressions(port: int) -> None:
    with RawClient(port) as client:
        for number in range(200):
            client.send(type="send", address="slow." + "a" * 190 + str(number))
        for _ in range(200):
            assert client.receive()["message"] == "access_denied"


def bad_frames(port: int) -> None:
    body = b'{"type":"send","address":"a","body":[%s0]}'
    headers = b'{"type":"send","address":"a","headers":{%s}}'
    many = b",".join(b'"h%d":"v"' % number for number in range(18_000))
    pieces = (
        b"1e300,",
        b"5e-324,",
        b"[],",
        b'{"a":1},',
        b"[" * 60 + b"]" * 60 + b",",
        b"9" * 4000 + b",",
        b'"\\ud800",',
    )
    with RawClient(port) as client:
        for frame in (
            *(body % (piece * (FRAME_BYTES // len(piece))) for piece in pieces),
            body % (b"[" * (FRAME_BYTES // 2) + b"]" * (FRAME_BYTES // 2)),
            headers % many,
            headers % (b'"h":"' + b"v" * FRAME_BYTES + b'"'),
        ):
            client.send_frame(frame)
            client.send(type="ping")
            while client.receive()["type"] != "pong":
                pass


def fan_out(port: int) -> None:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(RawClient(port)) for _ in range(LISTENERS)]
        for listener in listeners:
            listener.send(type="register", address="news")
            listener.must_be_alive()
        listeners[0].send(type="publish", address="news", body={"text": "x" * 10_000})
        for listener in listeners:
            assert listener.receive()["type"] == "message"


@pytest.mark.parametrize("attack", [registrations, flood, bad_frames, fan_out, slow_expressions])
def test_no_client_stops_the_loop_for_long(node: ReadyProcess, attack: Callable[[int], None]) -> None:
    """What an attack costs it costs every time; what other processes cost on a shared machine it does not."""
    attempts: list[float] = []
    while not attempts or (attempts[-1] and len(attempts) < ATTEMPTS_MAX):
        looks, late = stalls(node)
        attack(port_of(node))
        looks_after, late_after = stalls(node)
        assert looks_after > looks
        attempts.append(late_after - late)
    assert attempts[-1] == 0, f"looks that found the loop later than that, at each attempt: {attempts}"
