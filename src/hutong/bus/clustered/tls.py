"""TLS between the nodes of a clustered bus, in both directions, with one certificate for each node.

Strategy: a node shows the same certificate where others connect to it and where it connects to them. The other's is
checked against `ca`: that of a node it connects to always, that of a node that connects as `client_auth` says. So one
authority for all nodes, and nobody else, is enough. The files are looked at again before connections are opened and
accepted, but not more often than `reload_interval_ms`. Files that cannot be used, half written ones for example, change
nothing: that is logged.

Knows no nodes: which one it is that has the certificate, nothing says but its address.
"""

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.reactor.tls.server_contexts import ClientAuth, server_context

_log = logging.getLogger("hutong.tls")
Signature: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """Files in PEM. The key may be in the certificate's. `ca` has the authorities of the other nodes' certificates.

    `client_auth` is `required`, `requested` or `none`: whether a node that connects must show a certificate. With
    `check_names`, a node's certificate must be for the host that it is connected to.
    """

    certificate: Path | str
    ca: Path | str
    key: Path | str | None = None
    client_auth: str = "required"
    check_names: bool = True
    reload_interval_ms: int = 5_000


class ClusterCertificates:
    """The contexts of one node. Raises UsageError where the files cannot be used now."""

    def __init__(self, tls: ClusterTls, clock: Clock) -> None:
        try:
            self._client_auth = ClientAuth(tls.client_auth)
        except ValueError:
            words = ", ".join(ClientAuth)
            raise UsageError(f"client_auth of cluster_tls is one of {words}, not {tls.client_auth!r}.") from None
        self._tls = tls
        self._certificate, self._key, self._ca = Path(tls.certificate), Path(tls.key or tls.certificate), Path(tls.ca)
        self._clock = clock
        self._signature = self._look()
        self._looked_at_ms = clock.monotonic_ms()
        self._accepting, self._opening = self._loaded()

    def accepting(self) -> ssl.SSLContext:
        """For a connection that another node opens."""
        self._renew()
        return self._accepting

    def opening(self) -> ssl.SSLContext:
        """For a connection to another node."""
        self._renew()
        return self._opening

    def _renew(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_at_ms < self._tls.reload_interval_ms:
            return
        self._looked_at_ms = now_ms
        # Noted before the files are read: one that changes meanwhile differs at the next look.
        signature, self._signature = self._signature, self._look()
        if signature == self._signature:
            return
        try:
            self._accepting, self._opening = self._loaded()
        except UsageError as error:
            _log.error("%s The bus goes on with what was loaded before.", error)
        else:
            _log.info("loaded the TLS certificate %s of the bus anew.", self._certificate)

    def _loaded(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        is_asked = self._client_auth is not ClientAuth.NONE
        ca = self._ca if is_asked else None
        accepting = server_context(self._certificate, self._key, ca, client_auth=self._client_auth)
        try:
            # With its own authorities alone: those of the machine sign certificates for anybody.
            opening = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self._ca)
        except OSError as error:  # ssl.SSLError is one
            raise UsageError(f"Cannot use {self._ca} as ca of cluster_tls: {error}.", ExitCode.CONFIG) from None
        opening.check_hostname = self._tls.check_names
        opening.load_cert_chain(self._certificate, self._key)
        return accepting, opening

    def _look(self) -> Signature:
        return tuple(_signature_of(file) for file in (self._certificate, self._key, self._ca))


def _signature_of(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0  # a file that is not there
    return status.st_mtime_ns, status.st_size, status.st_ino
