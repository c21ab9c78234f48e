"""A failed authentication is answered, and its connection closed, after the delay that is set: not before, and so too
for a client that goes on sending meanwhile."""

import socket
import ssl
import struct
import time
from typing import Final

import pytest
from bench.kafka_bytes import string
from tests.compat.secured.doors import Secured
from tests.compat.secured.rules import DELAY_MS, PLAIN, USERS

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
FAILED: Final = 58


def _request(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", key, version, 7) + string("delay")
    return struct.pack(">i", len(head) + len(body)) + head + body


def _whole(peer: socket.socket, count: int) -> bytes:
    seen = b""
    while len(seen) < count:
        part = peer.recv(count - len(seen))
        assert part, f"closed after {len(seen)} of {count} bytes"
        seen += part
    return seen


def _answer(peer: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _whole(peer, 4))
    return _whole(peer, size)[4:]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_failed_authentication_is_answered_and_closed_late(secured: Secured, goes_on: bool) -> None:
    host, _, port = secured.addresses["sasl"].rpartition(":")
    context = ssl.create_default_context(cafile=str(secured.certificates.authority))
    with (
        socket.create_connection((host, int(port)), 20) as bare,
        context.wrap_socket(bare, server_hostname=host) as peer,
    ):
        peer.sendall(_request(SASL_HANDSHAKE, 1, string(PLAIN)))
        assert _answer(peer)[:2] == b"\0\0"
        said = f"\0alice\0{USERS['alice']} not".encode()
        begun = time.monotonic()
        peer.sendall(_request(SASL_AUTHENTICATE, 0, struct.pack(">i", len(said)) + said))
        if goes_on:
            peer.sendall(_request(SASL_AUTHENTICATE, 0, struct.pack(">i", len(said)) + said))
        (code,) = struct.unpack(">h", _answer(peer)[:2])
        assert code == FAILED
        assert (time.monotonic() - begun) * 1000 >= DELAY_MS - 1
        assert _is_closed(peer)


def _is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except (ConnectionResetError, ssl.SSLError):
        return True
