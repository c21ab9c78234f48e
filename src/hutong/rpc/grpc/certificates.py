"""gRPC's credentials of a server, with certificates that are loaded again when their files change.

Strategy: gRPC asks for a new certificate before each handshake, on any thread. The files are checked then, but not more
often than `reload_interval_ms`. They are loaded with Python's TLS first, since gRPC reports invalid ones only at a
handshake. Files that cannot be used, half written ones for example, change nothing: that is logged.

Needs the extra `grpc`. Knows nothing of calls.
"""

import logging
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import grpc

from hutong.foundation.clock import Clock
from hutong.foundation.errors import UsageError
from hutong.reactor.tls.server_contexts import server_context

if TYPE_CHECKING:
    from hutong.rpc.grpc.opening import GrpcTls

_log = logging.getLogger("hutong.tls")

Signature = tuple[tuple[int, int, int], ...]


class GrpcCertificates:
    """Those of one server. Raises UsageError where the files cannot be used now."""

    def __init__(self, tls: "GrpcTls", clock: Clock) -> None:
        self._certificate, self._key = Path(tls.certificate), Path(tls.key or tls.certificate)
        self._client_ca = None if tls.client_ca is None else Path(tls.client_ca)
        self._interval_ms = tls.reload_interval_ms
        self._clock = clock
        self._lock = Lock()
        self._signature = self._look()
        self._looked_at_ms = clock.monotonic_ms()
        self._first = self._loaded()

    def credentials(self) -> Any:
        """gRPC's own."""
        asks = self._client_ca is not None
        return grpc.dynamic_ssl_server_credentials(self._first, self.renewed, require_client_authentication=asks)

    def renewed(self) -> Any:
        """The files' new contents in gRPC's form, None where there is nothing new. May be called on any thread."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._looked_at_ms < self._interval_ms:
                return None
            self._looked_at_ms = now_ms
            signature = self._look()
            if signature == self._signature:
                return None
            try:
                loaded = self._loaded()
            except (UsageError, OSError) as error:
                self._signature = signature
                _log.error("%s gRPC goes on with what was loaded before.", error)
                return None
            if self._look() != signature:  # written meanwhile: key and certificate may be of different times
                return None
            self._signature = signature
            _log.info("loaded the TLS certificate %s of gRPC anew.", self._certificate)
            return loaded

    def _loaded(self) -> Any:
        server_context(self._certificate, self._key, self._client_ca)
        pair = (self._key.read_bytes(), self._certificate.read_bytes())
        authorities = None if self._client_ca is None else self._client_ca.read_bytes()
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)

    def _look(self) -> Signature:
        files = (self._certificate, self._key, self._client_ca)
        return tuple(_signature_of(file) for file in files if file is not None)


def _signature_of(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0  # a file that is not there
    return status.st_mtime_ns, status.st_size, status.st_ino
