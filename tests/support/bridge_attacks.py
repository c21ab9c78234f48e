"""What a hostile client of the TCP bridge sends to keep a node busy, by the port of its bridge.

The tests see that each is answered and that others are served; `python -m bench bridges` measures how long the node's
loop works for it in one piece.
"""

import contextlib
import json
import struct
from collections.abc import Callable
from typing import Final

from tests.support.bridge import RawClient

REGISTRATIONS: Final = 10_000
LISTENERS: Final = 1_000
FRAME_BYTES: Final = 250_000
OPTIONS: Final = (
    *("--bridge-permit", "in=[a-r].*"),
    *("--bridge-permit", "in=slow.*a.*b"),
    *("--bridge-permit", "out=.*"),
)
"""Options of the node that is attacked."""


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


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


ATTACKS: Final[tuple[Callable[[int], None], ...]] = (registrations, flood, bad_frames, fan_out, slow_expressions)
