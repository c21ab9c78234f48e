"""WebSocket frames (RFC 6455) of one accepted connection: bytes in, messages out; wsproto knows the frames.

Strategy: parts of a message are kept until it is whole, and their bytes counted, so that it has a bound. Extensions are
not offered: without permessage-deflate nothing that arrives can become larger than it is.

Knows nothing of SockJS, sockets or time.
"""

from collections.abc import Iterator

from wsproto import ConnectionType
from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.frame_protocol import CloseReason

TOO_BIG = CloseReason.MESSAGE_TOO_BIG
UNSUPPORTED = CloseReason.UNSUPPORTED_DATA


class WebSocket:
    """One connection after its handshake. `is_over`: a close frame was sent, and nothing further is read."""

    def __init__(self, message_bytes_max: int) -> None:
        self.bytes_held = 0  # of an unfinished message
        self.is_over = False
        self._message_bytes_max = message_bytes_max
        self._connection = Connection(ConnectionType.SERVER)
        self._parts: list[str] = []
        self._out: list[bytes] = []

    def receive_data(self, data: bytes) -> list[str]:
        """The messages completed by `data`."""
        if self.is_over:
            return []
        self._connection.receive_data(data)
        return list(self._messages())

    def send_text(self, text: str) -> None:
        if not self.is_over:
            self._out.append(self._connection.send(TextMessage(text)))

    def ping(self) -> None:
        """Ask for a sign of life, which also shows the reactor that the connection is in use."""
        if not self.is_over:
            self._out.append(self._connection.send(Ping()))

    def close(self, code: int, reason: str = "") -> None:
        """Say goodbye; a reason of more than 123 bytes would not fit into the frame (RFC 6455, 5.5)."""
        if self.is_over:
            return
        self.is_over = True
        self._parts.clear()
        self.bytes_held = 0
        if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            shown = reason.encode()[:123].decode(errors="ignore")
            self._out.append(self._connection.send(CloseConnection(code, shown)))

    @property
    def has_data_to_send(self) -> bool:
        return bool(self._out)

    def data_to_send(self) -> list[bytes]:
        ready, self._out = self._out, []
        return ready

    def _messages(self) -> Iterator[str]:
        for event in self._connection.events():
            if self.is_over:
                return
            if isinstance(event, TextMessage):
                yield from self._text(event)
            else:
                self._control(event)

    def _text(self, event: TextMessage) -> Iterator[str]:
        self.bytes_held += len(event.data.encode())
        if self.bytes_held > self._message_bytes_max:
            self.close(TOO_BIG, f"a message may have {self._message_bytes_max} bytes")
            return
        if event.data:  # parts without anything in them could be kept without end
            self._parts.append(event.data)
        if event.message_finished:
            text = "".join(self._parts)
            self._parts.clear()
            self.bytes_held = 0
            yield text

    def _control(self, event: Event) -> None:
        if isinstance(event, Ping):
            self._out.append(self._connection.send(event.response()))
        elif isinstance(event, BytesMessage):
            self.close(UNSUPPORTED, "messages are text here")
        elif isinstance(event, CloseConnection):  # theirs, to be echoed, or wsproto's for a broken frame
            self.close(_sendable(event.code), event.reason or "")


def _sendable(code: int) -> int:
    """1005 and 1006 say that there was no code: they never travel (RFC 6455, 7.4.1)."""
    return CloseReason.NORMAL_CLOSURE if code in (CloseReason.NO_STATUS_RCVD, CloseReason.ABNORMAL_CLOSURE) else code
