"""One side of a TLS connection as bytes in, bytes out: OpenSSL behind two buffers, without a socket.

Strategy: the driver feeds what arrived, asks for the handshake until it is done, then reads and writes plaintext; what
OpenSSL wants sent, alerts included, is taken with `data_to_send` after every call. That is why this is not left to the
loop: its own TLS drops a connection whose handshake fails without sending the alert that says why.

Knows nothing of sockets, time or what the plaintext means.
"""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hutong.reactor.figures import HandshakeFailure
from hutong.wire.buffer import Buffer

_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_REVOKED: Final = 23  # X509_V_ERR_CERT_REVOKED
_NO_CRL: Final = frozenset((3, 5, 8, 11, 12, 33, 35))  # no list of the issuer, or none that is valid now and signed
_UNKNOWN_AUTHORITY: Final = frozenset((2, 18, 19, 20, 21))  # no issuer found, or one that signed itself
_NOT_TLS: Final = frozenset(("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"))
_NO_AGREEMENT: Final = frozenset(
    ("NO_SHARED_CIPHER", "NO_SUITABLE_KEY_SHARE", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "NO_PROTOCOLS_AVAILABLE")
)


class HandshakeFailed(Exception):
    """`failure` is what to count; the text is OpenSSL's own."""

    def __init__(self, failure: HandshakeFailure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure


class TlsSession:
    """The server's side of one connection."""

    __slots__ = ("_has_ended", "_incoming", "_outgoing", "_tls", "is_open")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.is_open = False  # the handshake is done
        self._has_ended = False  # the peer has sent close_notify
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def receive_data(self, data: Buffer) -> None:
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is done. Raises HandshakeFailed, with the alert in `data_to_send`."""
        try:
            self._tls.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLError as error:
            raise HandshakeFailed(_failure_of(error), _text_of(error)) from None
        self.is_open = True
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        """Plaintext, as much as has arrived and fits; 0 where more must come first, None after the peer's last.

        Raises ssl.SSLError for what breaks TLS; an alert is in `data_to_send` then.
        """
        filled, size, tls, incoming = 0, len(buffer), self._tls, self._incoming
        try:
            while filled < size and (incoming.pending or tls.pending()):  # asking in vain would cost an exception
                count: int = tls.read(size - filled, buffer[filled:])  # type: ignore[assignment]
                if not count:
                    self._has_ended = True
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except ssl.SSLZeroReturnError:  # a goodbye where ours was sent before
            self._has_ended = True
        return None if self._has_ended and not filled else filled

    @property
    def has_unread(self) -> bool:
        """True when bytes have arrived that were not read."""
        return bool(self._incoming.pending or self._tls.pending())

    def write(self, data: Buffer) -> None:
        """Encrypt; `data` may be reused at once."""
        rest = data
        while len(rest):
            rest = memoryview(rest)[self._tls.write(rest) :]

    def say_goodbye(self) -> None:
        """Tell the peer that nothing more comes (close_notify); its own goodbye is not waited for."""
        with suppress(ssl.SSLError):  # it has not sent close_notify, or the connection is broken already
            self._tls.unwrap()

    def data_to_send(self) -> bytes:
        return self._outgoing.read() if self._outgoing.pending else b""

    def certificate(self) -> Mapping[str, Any] | None:
        """The peer's, as `ssl.SSLSocket.getpeercert` gives it; None where it showed none."""
        return self._tls.getpeercert()

    def certificate_der(self) -> bytes | None:
        """The peer's, whole; None where it showed none."""
        return self._tls.getpeercert(binary_form=True)


def _failure_of(error: ssl.SSLError) -> HandshakeFailure:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return HandshakeFailure.EXPIRED
        if error.verify_code == _REVOKED:
            return HandshakeFailure.REVOKED
        if error.verify_code in _NO_CRL:
            return HandshakeFailure.NO_CRL
        is_unknown = error.verify_code in _UNKNOWN_AUTHORITY
        return HandshakeFailure.UNKNOWN_AUTHORITY if is_unknown else HandshakeFailure.BAD_CERTIFICATE
    reason = error.reason or ""
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return HandshakeFailure.NO_CERTIFICATE
    if reason in _NOT_TLS:
        return HandshakeFailure.NOT_TLS
    if reason in _NO_AGREEMENT:
        return HandshakeFailure.NO_AGREEMENT
    if "_ALERT_" in reason:
        return HandshakeFailure.REFUSED_BY_PEER
    return HandshakeFailure.OTHER


def _text_of(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or "unknown").replace("_", " ").lower()
