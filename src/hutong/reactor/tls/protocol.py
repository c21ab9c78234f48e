"""TLS between a transport of the loop and a connection: to the one it is the protocol, to the other the transport.

Strategy: what the transport reads goes into the acceptor's shared buffer and from there into OpenSSL, which then
decrypts into the same buffer, or straight into a large frame's own. So a TLS connection has no buffer of its own beyond
OpenSSL's. The connection above it comes to be when the handshake is done; a handshake that fails is answered with its
alert, and the socket is then left to the peer to close for `LINGER_MS`, so that the alert is not lost to a reset. Where
TLS is optional, a first byte that begins no handshake (no frame of ours begins with 0x16) makes this step aside.

Knows nothing of frames or certificates.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from hutong.foundation.timers import Timer
from hutong.reactor.connections.protocol import AcceptorServices, ConnectionProtocol
from hutong.reactor.figures import HandshakeFailure
from hutong.reactor.tls.handshakes import Handshakes
from hutong.reactor.tls.session import HandshakeFailed, TlsSession
from hutong.wire.buffer import Buffer

LINGER_MS: Final = 1_000
FREE_READS: Final = 8  # of a handshake; usual ones take two to four
READ_PAUSE_MS: Final = 200  # after each further one: a read of one byte costs the loop as much as one of many
HANDSHAKE: Final = 0x16

TlsSource = Callable[[], ssl.SSLContext]
"""Asked for each connection, so that certificates may change while the others go on."""


class TlsProtocol(asyncio.BufferedProtocol):
    """One TLS connection of an acceptor, from its first packet to its end."""

    __slots__ = (
        "_app",
        "_around",
        "_handshakes",
        "_has_begun",
        "_has_failed",
        "_is_closing",
        "_is_optional",
        "_is_paused",
        "_pace",
        "_reads",
        "_session",
        "_timer",
        "_tls",
        "_transport",
        "address",
        "has_entered",
        "is_made",
    )

    _transport: asyncio.Transport
    _session: TlsSession

    def __init__(
        self, around: AcceptorServices, tls: TlsSource, handshakes: Handshakes, *, is_optional: bool = False
    ) -> None:
        self._around = around
        self._tls = tls
        self._handshakes = handshakes
        self._is_optional = is_optional
        self._app: ConnectionProtocol | None = None
        self._has_begun = False  # whether anything has arrived: until then there is no session
        self._has_failed = False  # its handshake: what still arrives is thrown away
        self._is_paused = False
        self._is_closing = False
        self._reads = 0  # of the handshake
        self._pace: Timer | None = None  # while it is not read, because it comes in too many pieces
        self._timer: Timer | None = None  # of the handshake, or of what is left of a failed one
        self.address = ""
        self.has_entered = False  # whether it is counted among the connections: the acceptor's to say
        self.is_made = False  # whether a transport has it

    # Called by the transport below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_made = True
        if self._handshakes.begin_handshake(self):
            self._set_timer(self._around.limits.handshake_ms_max, self._too_slow)
        else:
            self.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._around.scratch

    def buffer_updated(self, nbytes: int) -> None:
        # The alert is sent, and what still arrives is read and dropped, so that the kernel sends no reset.
        if self._has_failed:
            return
        if not self._has_begun:
            # A TLS record of the handshake begins with 0x16; a Kafka frame would be over 350 MB long with it.
            if self._is_optional and self._around.scratch[0] != HANDSHAKE:
                self._step_aside(nbytes)
                return
            self._session = TlsSession(self._tls())
            self._has_begun = True
        self._session.receive_data(self._around.scratch[:nbytes])
        if self._app is None and not self._shake_hands():
            return
        self._deliver()

    def eof_received(self) -> bool:
        if self._app is not None:
            self._app.eof_received()
        else:
            self._fail(HandshakeFailure.PEER_LEFT, "end of stream")
        return False

    def pause_writing(self) -> None:
        if self._app is not None:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._app is not None:
            self._app.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._app is not None:
            self._stop_shaking()
            self._app.connection_lost(exc)
            return
        self._fail(HandshakeFailure.PEER_LEFT, "connection lost")
        self._stop_shaking()
        self._handshakes.leave(self.address)

    # Called by the connection above, as its transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            return self._session.certificate()
        if name == "peercert_der":
            return self._session.certificate_der()
        return self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, buffers: list[Buffer]) -> None:
        if self._is_closing:
            return
        session = self._session
        for buffer in buffers:
            # All buffers first: one write of several records instead of a packet for each.
            session.write(buffer)
        self._flush()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._transport.resume_reading()
        # OpenSSL has bytes that the socket will not announce again.
        if self._session.has_unread:
            self._around.loop.call_soon(self._go_on)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._session.say_goodbye()
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        self._stop_shaking()
        self._transport.abort()

    # Steps of the above.

    def _shake_hands(self) -> bool:
        session = self._session
        try:
            is_done = session.shake_hands()
        except HandshakeFailed as error:
            self._flush()
            self._fail(error.failure, str(error))
            return False
        self._flush()
        if not is_done:
            self._slow_down()
            return False
        self._stop_shaking()
        self._handshakes.succeeded()
        _acknowledge(self._transport.get_extra_info("socket"))
        self._app = self._connection()
        self._app.connection_made(cast(asyncio.Transport, self))
        return True

    def _slow_down(self) -> None:
        """Read a handshake that comes in many pieces now and then, when several of them are there."""
        self._reads += 1
        # A byte at a time would cost the loop a read each, before anybody has authenticated.
        if self._reads > FREE_READS and self._pace is None:
            self._transport.pause_reading()
            self._pace = self._around.wheel.add(self._around.clock.monotonic_ms() + READ_PAUSE_MS, self._read_again)

    def _read_again(self) -> None:
        self._pace = None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _connection(self) -> ConnectionProtocol:
        connection = ConnectionProtocol(self._around)
        connection.address, connection.has_entered = self.address, self.has_entered
        return connection

    def _step_aside(self, nbytes: int) -> None:
        """Leave transport and peer to a connection without TLS; the first bytes are where it looks for them."""
        self._stop_shaking()
        connection = self._connection()
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        # The connection may have been refused in `connection_made`.
        if not self._transport.is_closing():
            connection.get_buffer(-1)
            connection.buffer_updated(nbytes)

    def _go_on(self) -> None:
        try:
            self._deliver()
        except Exception as error:  # noqa: BLE001  # as a transport does: a fault ends one connection, not all
            assert self._app is not None, "it has paused its reading"
            self._app.fail(error)

    def _deliver(self) -> None:
        """Give the connection what has arrived, until it wants no more."""
        app, session = self._app, self._session
        assert app is not None, "called only after the handshake"
        try:
            while not self._is_paused and not self._is_closing:
                count = session.read_into(app.get_buffer(-1))  # not kept: a frame's buffer grows between two reads
                # close_notify: the end is deliberate, not a cut connection (RFC 8446, section 6.1).
                if count is None:
                    app.eof_received()
                    self.close()
                elif count:
                    app.buffer_updated(count)
                else:
                    break
        except ssl.SSLError:  # breaking TLS is the peer's fault: it gets the alert, and the connection ends
            self._flush()
            self._is_closing = True
            self._set_timer(self._around.limits.closing_ms_max, self._transport.abort)
            self._transport.close()
            return
        self._flush()  # an answer of TLS itself, to a change of keys for one

    def _flush(self) -> None:
        data = self._session.data_to_send()
        if data:
            self._transport.write(data)

    def _too_slow(self) -> None:
        self._fail(HandshakeFailure.TOO_SLOW, "no handshake in time")

    def _fail(self, failure: HandshakeFailure, detail: str) -> None:
        """The handshake is over. Its alert is sent; then the peer has a moment to hang up first."""
        if self._has_failed:
            return
        self._has_failed = True
        self._stop_shaking()
        self._handshakes.failed(self.address, failure, detail)
        if self._is_closing:
            return
        # Nobody reads an alert there; or the acceptor is closing, and nothing may linger.
        if failure in (HandshakeFailure.PEER_LEFT, HandshakeFailure.TOO_SLOW) or not self._handshakes.begin_handshake(
            self
        ):
            self.abort()
            return
        self._set_timer(LINGER_MS, self.abort)
        # The end of our side only: a full close could reset the connection before the alert is read.
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _set_timer(self, wait_ms: int, callback: Callable[[], None]) -> None:
        self._timer = self._around.wheel.add(self._around.clock.monotonic_ms() + wait_ms, callback)

    def _stop_shaking(self) -> None:
        self._handshakes.end_handshake(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pace is not None:
            self._pace.cancel()
            self._pace = None


def _acknowledge(connection: socket.socket | None) -> None:
    """The kernel waits 40 ms with this where there is nothing to send, and a client with Nagle's algorithm for it.

    The client has just sent its last word of the handshake, and a first request may be waiting behind that.
    """
    if connection is not None and hasattr(socket, "TCP_QUICKACK"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
