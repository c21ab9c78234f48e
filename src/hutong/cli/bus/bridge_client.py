"""A client of the TCP event-bus bridge for the commands: one connection, one thing at a time, errors in one sentence.

Strategy: plain blocking sockets, since a command does one thing and waits for it. What the bridge refuses is known by
asking for a pong behind it: frames are answered in order.

Knows nothing of how results are shown.
"""

import json
import socket
import ssl
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.loader import parse_address

CONNECT_TIMEOUT_SECONDS: Final = 5.0
ANSWER_TIMEOUT_SECONDS: Final = 10.0  # for what the bridge itself answers
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024  # of what a bridge may send us
_DENIED: Final = ("access_denied", "not_logged_in", "auth_error")

Frame = dict[str, Any]


class BridgeRefusal(Exception):
    """An `err` frame; `frame` is all of it."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(str(frame.get("message")))
        self.frame = frame


class TcpBridgeClient:
    """A connection to `bridge` (HOST:PORT). Raises UsageError wherever it cannot be used."""

    def __init__(self, bridge: str, tls: ssl.SSLContext | None) -> None:
        self._bridge = bridge
        try:
            address = parse_address(bridge)
        except ValueError as error:
            raise UsageError(f"--bridge {error}.", ExitCode.USAGE) from None
        try:
            plain = socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=address.host)
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise UsageError(
                f"No bridge answers at {bridge}: {reason}; is `hutong serve --tcp-bridge {bridge}` running?",
                ExitCode.UNAVAILABLE,
            ) from None
        self._read = self._socket.makefile("rb")

    def __enter__(self) -> "TcpBridgeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self._socket.close()

    def send_frame(self, kind: str, address: str, body: Any, headers: dict[str, str]) -> None:
        """Send or publish, or register. Raises BridgeRefusal where the bridge does not take it."""
        self._socket.settimeout(ANSWER_TIMEOUT_SECONDS)
        self._write({"type": kind, "address": address, "body": body, "headers": headers})
        self._write({"type": "ping"})
        while (frame := self._next())["type"] != "pong":
            if frame["type"] == "err":
                raise BridgeRefusal(frame)

    def request(self, address: str, body: Any, headers: dict[str, str], timeout_ms: int) -> Frame:
        """Return the reply. Raises BridgeRefusal for a failure of any kind."""
        self._socket.settimeout(timeout_ms / 1000 + ANSWER_TIMEOUT_SECONDS)
        reply_address = str(uuid.uuid4())
        request = {"type": "send", "address": address, "replyAddress": reply_address, "body": body}
        self._write({**request, "headers": {**headers, "timeout": str(timeout_ms)}})
        while (frame := self._next()).get("address") != reply_address and frame["type"] != "err":
            pass
        if frame["type"] == "err":
            raise BridgeRefusal(frame)
        return frame

    def reply(self, to: Frame, body: Any) -> None:
        self._write({"type": "send", "address": to["replyAddress"], "body": body})

    def messages(self) -> Iterator[Frame]:
        """Frames as they come, without end. Raises BridgeRefusal for an `err` frame."""
        self._socket.settimeout(None)
        while True:
            frame = self._next()
            if frame["type"] == "err":
                raise BridgeRefusal(frame)
            if frame["type"] == "message":
                yield frame

    def refused(self, refusal: BridgeRefusal, address: str) -> UsageError:
        """The refusal as a sentence."""
        frame = refusal.frame
        if str(refusal) in _DENIED:
            return UsageError(f"The bridge at {self._bridge} does not permit {address} ({refusal}).", ExitCode.NOPERM)
        if "failureType" in frame:
            kind, code = frame["failureType"], frame.get("failureCode")
            exit_code = ExitCode.NOINPUT if kind == "NO_HANDLERS" else ExitCode.UNAVAILABLE
            return UsageError(f"The request to {address} failed with {kind} ({code}): {refusal}.", exit_code)
        return UsageError(f"The bridge at {self._bridge} refused this: {refusal}.", ExitCode.PROTOCOL)

    def _write(self, frame: Frame) -> None:
        text = json.dumps(frame).encode()
        try:
            self._socket.sendall(struct.pack(">i", len(text)) + text)
        except OSError:
            raise self._gone() from None

    def _next(self) -> Frame:
        try:
            head = self._read.read(4)
            length = struct.unpack(">i", head)[0] if len(head) == 4 else 0
            if not 0 < length <= FRAME_BYTES_MAX:
                raise self._gone()
            frame = json.loads(self._read.read(length))
        except TimeoutError:
            raise UsageError(f"The bridge at {self._bridge} does not answer.", ExitCode.UNAVAILABLE) from None
        except (OSError, ValueError):
            raise self._gone() from None
        if not isinstance(frame, dict) or "type" not in frame:
            raise self._gone()
        return frame

    def _gone(self) -> UsageError:
        return UsageError(
            f"The connection to {self._bridge} ended, or what answers there is no TCP event-bus bridge.",
            ExitCode.UNAVAILABLE,
        )


def tls_of(ca: Path | None, certificate: Path | None, *, wanted: bool) -> ssl.SSLContext | None:
    """The TLS that the options ask for; naming a file asks for it. Raises UsageError for a file that cannot be used."""
    if not wanted and ca is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            context.load_cert_chain(certificate)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        named = " or ".join(str(file) for file in (ca, certificate) if file is not None)
        raise UsageError(f"Cannot use {named} for TLS: {reason}.", ExitCode.NOINPUT) from None
    return context
