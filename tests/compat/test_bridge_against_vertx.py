"""The TCP bridge beside the one of Vert.x itself: the same frames to both, and the same bytes back.

Two things differ on purpose and are evened out first: the reply addresses of the bus, and the words of failures that
are the bus's own. Where Vert.x stops answering for good, or leaves a registration behind (the first of two at one
address), nothing is compared: docs/bridges.md says what is done instead.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bench.targets import free_port
from tests.support.bridge import RawClient, bridged_bus

PEER = os.environ.get("HUTONG_TEST_VERTX_PEER") or str(
    pathlib.Path(__file__).resolve().parents[3] / "shared" / "peers" / "vertx" / "vertx"
)
ECHO: Final = {"type": "send", "address": "echo", "replyAddress": "r"}
REGISTER: Final = {"type": "register", "address": "a"}

BODIES: Final[list[Any]] = [
    {"a": [1, None, True]}, [], 1, -1.5, 0.1, True, "ü\u2028😀\\", {"ä": {}}, 2**60, 10**30, "",
]  # fmt: skip

SCRIPTS: Final[dict[str, list[Any]]] = {
    "ping": [{"type": "ping"}, {"type": "ping", "address": "a", "more": 1}],
    "addresses that are missing": [{"type": kind} for kind in ("send", "publish", "register", "unregister")],
    "an address that is null": [{"type": "send", "address": None}],
    "bodies": [{**ECHO, "body": body} for body in BODIES],
    "no body": [ECHO, {**ECHO, "body": None}],
    "no headers": [{**ECHO, "headers": None, "body": 1}, {**ECHO, "headers": {}, "body": 1}],
    "headers": [
        {**ECHO, "address": "headers", "headers": headers}
        for headers in ({"a": "b"}, {"n": 5}, {"t": True}, {"f": 1.5})
    ],
    "a member twice": [b'{"type":"send","address":"fail","address":"echo","replyAddress":"r","body":"x"}'],
    "failures": [
        {**ECHO, "address": "fail", "body": 1},
        {**ECHO, "address": "nobody", "body": 1},
        {**ECHO, "address": "blackhole", "headers": {"timeout": 50}},
    ],
    "publications and sends": [
        REGISTER,
        {"type": "publish", "address": "a", "body": {"x": 1}, "headers": {"q": "1"}},
        {"type": "send", "address": "a", "body": {"x": 2}},
    ],
    "registered twice": [
        REGISTER,
        REGISTER,
        {"type": "publish", "address": "a", "body": 1},
        {"type": "unregister", "address": "a"},
        {"type": "publish", "address": "a", "body": 2},
    ],
    "unregistered": [
        REGISTER,
        {"type": "unregister", "address": "a"},
        {"type": "publish", "address": "a", "body": 2},
        {"type": "unregister", "address": "a"},
    ],
    "never registered": [{"type": "unregister", "address": "zzz"}],
    "a request to itself": [REGISTER, {**ECHO, "address": "a", "body": 1, "headers": {"h": "v"}}],
    "two requests with one reply address": [{**ECHO, "body": 1}, {**ECHO, "body": 2}],
}


@pytest.fixture(scope="module")
def vertx_port() -> Iterator[int]:
    """A Vert.x node with its bridge, which ends when its standard input does."""
    if not os.access(PEER, os.X_OK):
        pytest.skip("no Vert.x peer: name its script in HUTONG_TEST_VERTX_PEER")
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java and mvn are not installed")
    port = free_port()
    with subprocess.Popen(
        [PEER, "node", "--bridge", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["bridge"] == port
        yield port
        process.stdin.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with bridged_bus() as bus:
        yield bus.port


def answers(port: int, script: list[Any]) -> list[bytes]:
    """The answers of a bridge to these frames, evened out. After each goes one whose answer comes later."""
    said: list[bytes] = []
    with RawClient(port) as client:
        for number, frame in enumerate(script):
            client.send_frame(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
            if isinstance(frame, dict) and frame["address" if "address" in frame else "type"] == "blackhole":
                said.append(client.receive_bytes())
            mark = f"mark{number}"
            client.send(type="send", address="echo", replyAddress=mark, body=1)
            while f'"address":"{mark}"'.encode() not in (answer := client.receive_bytes()):
                said.append(answer)
    return [evened(answer) for answer in said]


def evened(answer: bytes) -> bytes:
    answer = re.sub(rb"__(vertx|hutong)\.reply\.[0-9.]+", b"REPLY", answer)
    return re.sub(rb'("failureCode":-1,"failureType":"\w+","message":)"[^"]*"', rb"\1...", answer)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_frames_get_the_same_bytes(vertx_port: int, port: int, name: str) -> None:
    own = name.replace(" ", ".")  # what Vert.x leaves behind of one test does not meet the next
    script = [
        {**frame, "address": own} if isinstance(frame, dict) and frame.get("address") == "a" else frame
        for frame in SCRIPTS[name]
    ]
    theirs = answers(vertx_port, script)
    assert answers(port, script) == theirs
    assert theirs


@pytest.mark.parametrize(
    "answer", [{"body": "x", "headers": {"h": "v"}, "replyAddress": "further"}, {"failureCode": 42, "message": "bad"}]
)
def test_answers_of_clients_look_the_same(vertx_port: int, port: int, answer: dict[str, Any]) -> None:
    def exchange(port: int) -> list[bytes]:
        with contextlib.ExitStack() as stack:
            service, asking = (stack.enter_context(RawClient(port)) for _ in range(2))
            address = f"service.{len(answer)}.{'body' in answer}"
            service.send(type="register", address=address)
            service.send(type="ping")
            service.receive()
            asking.send(type="send", address=address, replyAddress="q", body=1)
            question = service.receive_bytes()
            service.send(type="send", address=json.loads(question)["replyAddress"], **answer)
            first = asking.receive_bytes()
            said = [question, first]
            if "failureCode" not in answer:
                asking.send(type="send", address=json.loads(first)["replyAddress"], body="second")
                said.append(service.receive_bytes())
            return [evened(each) for each in said]

    assert exchange(port) == exchange(vertx_port)
