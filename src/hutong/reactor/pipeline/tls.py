"""TLS as a handler: ciphertext before it, plaintext behind it, so that one port may serve both.

Strategy: a `TlsSession` does the work, as for whole listeners. Bytes that bring no plaintext count as those of a begun
frame: a handshake or a record that comes byte by byte has the deadline of a frame.

Knows nothing of sockets and certificates' rules.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hutong.foundation.errors import ProtocolError
from hutong.reactor.pipeline.machine import PipelineHandler, PipelineLink
from hutong.reactor.tls.session import HandshakeFailed, TlsSession
from hutong.wire.buffer import Buffer

RECORD_BYTES: Final = 16 * 1024
"""The largest plaintext of a record (RFC 8446, section 5.1)."""
EARLY_BYTES_MAX: Final = 256 * 1024
"""Sent before the handshake is done. It may never be, and until then nothing shows the sender that nobody reads."""
HANDSHAKE_READS_MAX: Final = 64
"""Usual handshakes take two to four reads. Each costs a call of OpenSSL, before anybody has authenticated."""


@dataclass(frozen=True, slots=True)
class TlsOpened:
    """The event of a handshake that is done. `certificate` is the peer's, None where it showed none."""

    certificate: Mapping[str, Any] | None


class TlsHandler(PipelineHandler):
    """The server's side of TLS, for one connection; fires `TlsOpened` for the handlers behind it."""

    bytes_held = 0

    def __init__(self, context: ssl.SSLContext) -> None:
        if not isinstance(context, ssl.SSLContext):
            hint = "make one with reactor.server_context(certificate, key)"
            raise TypeError(f"a TlsHandler needs an ssl.SSLContext, not a {type(context).__name__}: {hint}")
        self._session = TlsSession(context)
        self._early: list[Buffer] = []  # sent before the handshake was done
        self._early_bytes = 0
        self._reads = 0  # of the handshake
        self._is_reading = False
        self._is_broken = False

    def inbound(self, value: Any, link: PipelineLink) -> None:
        # What follows broken TLS has no meaning, also where a handler took the failure.
        if self._is_broken:
            return
        self._session.receive_data(value)
        self.bytes_held += len(value)
        if self._session.is_open or self._shake_hands(link):
            self.resume(link)

    def outbound(self, value: Any, link: PipelineLink) -> None:
        # A greeting at the opening, or an answer of another connection's handler.
        if not self._session.is_open:
            self._keep_early(value, link)
            return
        self._session.write(value)
        self._flush(link)

    def resume(self, link: PipelineLink) -> None:
        # A handler behind may resume the pipeline from within: the loop below goes on anyway.
        if self._is_reading or self._is_broken or not self._session.is_open:
            return
        self._is_reading = True
        buffer = memoryview(bytearray(RECORD_BYTES))
        try:
            # What is not read now stays encrypted in the session until framings cut again.
            while not link.is_removed and link.may_continue:
                count = self._session.read_into(buffer)
                # close_notify: the end is deliberate, not a cut connection (RFC 8446, section 6.1).
                if count is None:
                    link.pipeline.close()
                    break
                # The rest of a record is to come.
                if not count:
                    break
                # Plaintext came, so the peer keeps going: the next record has a deadline of its own.
                self.bytes_held = 0
                link.pass_inbound(bytes(buffer[:count]))
        except ssl.SSLError as error:
            self._break(link)
            raise ProtocolError(f"broken TLS: {error.reason or error}") from None
        finally:
            self._is_reading = False
        # TLS answers by itself as well, to a change of keys for one.
        self._flush(link)

    def closing(self, link: PipelineLink) -> None:
        # Without it the peer cannot tell this end from a cut connection.
        if self._session.is_open and not self._is_broken:
            self._session.say_goodbye()
            self._flush(link)

    def _shake_hands(self, link: PipelineLink) -> bool:
        self._reads += 1
        if self._reads > HANDSHAKE_READS_MAX:
            self._break(link)
            raise ProtocolError(f"a TLS handshake in more than {HANDSHAKE_READS_MAX} pieces")
        try:
            is_done = self._session.shake_hands()
        except HandshakeFailed as error:
            # With the alert, which tells the peer the reason.
            self._break(link)
            raise ProtocolError(f"the TLS handshake failed: {error}") from None
        self._flush(link)
        if is_done:
            # The handshake was the begun frame; what came behind it is read next.
            self.bytes_held = 0
            early, self._early = self._early, []
            for value in early:
                self.outbound(value, link)
            link.pass_event(TlsOpened(self._session.certificate()))
        return is_done

    def _keep_early(self, value: Any, link: PipelineLink) -> None:
        # What follows has nowhere to go: broken TLS is never opened.
        if self._is_broken:
            return
        self._early.append(value)
        self._early_bytes += len(value)
        # A peer that connects and shakes no hands would collect all that is sent to everybody. The sender is not at
        # fault, so it gets no error.
        if self._early_bytes > EARLY_BYTES_MAX:
            self._break(link)
            link.pipeline.close()

    def _break(self, link: PipelineLink) -> None:
        self._is_broken = True
        self.bytes_held = 0
        self._early.clear()
        self._flush(link)

    def _flush(self, link: PipelineLink) -> None:
        data = self._session.data_to_send()
        if data:
            link.pass_outbound(data)
