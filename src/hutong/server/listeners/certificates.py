"""The certificates of a node's TLS listeners, and revocation lists, loaded again when their files change.

Strategy: a periodic check of the files' times and sizes. If they differ, new contexts are made for connections from
then on; open ones keep theirs. Files that cannot be used, half written ones for example, change nothing: that is
logged, and the next change is tried again.

Listeners differ in what they ask of clients: each such way has a context of its own, made once it is asked for.

Knows nothing of listeners or connections.
"""

import logging
from collections.abc import Callable, Set
from pathlib import Path
from ssl import PEM_cert_to_DER_cert, SSLContext
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.tls.server_contexts import ClientAuth, CrlCheck, TlsVersion, server_context
from hutong.security.certificate_times import expires_at_ms
from hutong.server.configuration.sections.bus import BridgeSettings
from hutong.server.configuration.sections.console import ConsoleSettings
from hutong.server.configuration.sections.http import HttpSettings
from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.sections.schema_registry import SchemaRegistrySettings
from hutong.server.configuration.sections.security import TlsSettings
from hutong.server.listeners.revocation import check_crls, crl_files

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_OTHERS_READ: Final = 0o004
_log = logging.getLogger("hutong.tls")

Signature = tuple[tuple[str, int, int, int], ...]


class Certificates:
    """Call `watch` to check the files periodically, `close` in the end. Raises UsageError for unusable files."""

    def __init__(self, settings: TlsSettings, clock: Clock, wheel: TimerWheel) -> None:
        if settings.certificate is None:
            raise UsageError(
                "A listener with TLS needs a certificate: set tls.certificate (`hutong cert dev` makes one to try it "
                "out with).",
                ExitCode.CONFIG,
            )
        self._settings = settings
        self._certificate = settings.certificate
        self._clock = clock
        self._wheel = wheel
        self._timer: Timer | None = None
        self._signature = self._signature_now()
        lists, self.crl_expires_at_ms = self._lists()  # wall time of the first list's end, None without lists
        self._contexts = self._made({ClientAuth.NONE, ClientAuth(settings.client_auth)}, lists)
        self._warn_of_open_key()
        self.expires_at_ms = _end_of(self._certificate)  # wall time, None where it is unknown
        self.reloads_total = 0
        self.reloads_failed_total = 0

    def source(self, client_auth: ClientAuth | None = None) -> Callable[[], SSLContext]:
        """A listener's source of contexts; without `client_auth` it asks what the settings say.

        Raises UsageError where clients shall show certificates and no authorities are set.
        """
        asked = ClientAuth(self._settings.client_auth) if client_auth is None else client_auth
        # Made now, so that unusable files fail the start and not the first handshake.
        if asked not in self._contexts:
            self._contexts |= self._made({asked}, self._lists()[0])
        # A function and not a context: after a reload, new connections get the new files and open ones keep theirs.
        return lambda: self._contexts[asked]

    def watch(self) -> None:
        self._timer = self._wheel.add(self._clock.monotonic_ms() + self._settings.reload_interval_ms, self._again)

    def reload(self) -> bool:
        """Load the files as they are now; whether they could be used. Otherwise what was loaded before stays."""
        # Noted before the files are read: one that changes meanwhile differs at the next check, and is loaded again.
        self._signature = self._signature_now()
        try:
            lists, crl_expires_at_ms = self._lists()
            self._contexts = self._made(self._contexts.keys(), lists)
        except UsageError as error:
            self.reloads_failed_total += 1
            _log.error("%s What was loaded before stays in use.", error)
            return False
        self.expires_at_ms, self.crl_expires_at_ms = _end_of(self._certificate), crl_expires_at_ms
        self.reloads_total += 1
        _log.info("loaded the TLS certificate %s anew.", self._certificate)
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reload_if_changed(self) -> None:
        """Load the files if they have changed."""
        if self._signature_now() != self._signature:
            self.reload()

    def check(self) -> None:
        """Raises UsageError where the files have changed and cannot be used."""
        if self._signature_now() != self._signature:
            self._made(self._contexts.keys(), self._lists()[0])

    def _warn_of_open_key(self) -> None:
        # A key that a group can read is common (the group ssl-cert of Debian), so only all others count.
        key = self._settings.key or self._certificate
        if key.stat().st_mode & _OTHERS_READ:
            _log.warning("everybody on this machine can read the TLS key in %s: chmod o-r.", key)

    def _again(self) -> None:
        self.reload_if_changed()
        self.watch()

    def _files(self) -> tuple[Path, ...]:
        settings = self._settings
        named = (self._certificate, settings.key, settings.client_ca)
        return (*(file for file in named if file is not None), *crl_files(settings.crl))

    def _signature_now(self) -> Signature:
        return tuple((str(file), *_signature_of(file)) for file in self._files())

    def _lists(self) -> tuple[tuple[Path, ...], int | None]:
        """The files with revocation lists, and when the first of them ends. Raises UsageError."""
        place = self._settings.crl
        files = crl_files(place)
        return files, None if place is None else check_crls(place, files)

    def _made(self, asked: Set[ClientAuth], lists: tuple[Path, ...]) -> dict[ClientAuth, SSLContext]:
        """A context for each way to ask clients for certificates."""
        settings = self._settings
        if settings.client_ca is None and (asking := sorted(asked - {ClientAuth.NONE})):
            raise UsageError(
                f"tls.client_auth is {asking[0]}, which needs the authorities in tls.client_ca.", ExitCode.CONFIG
            )
        return {
            client_auth: server_context(
                self._certificate,
                settings.key,
                None if client_auth is ClientAuth.NONE else settings.client_ca,
                client_auth=client_auth,
                version=TlsVersion(settings.min_version),
                ciphers=settings.ciphers,
                key_password=settings.key_password,
                crl_files=lists,
                crl_check=CrlCheck(settings.crl_check),
            )
            for client_auth in asked
        }


def certificates_of(
    section: (
        BridgeSettings | ConsoleSettings | HttpSettings | MetricsSettings | RocketMqSettings | SchemaRegistrySettings
    ),
    clock: Clock,
    wheel: TimerWheel,
    reload_interval_ms: int,
) -> Certificates | None:
    """The certificates of a listener with files of its own; None for a plain one. Raises UsageError."""
    if section.tls_certificate is None:
        return None
    files = TlsSettings(
        certificate=section.tls_certificate,
        key=section.tls_key,
        client_ca=section.tls_client_ca,
        # An authority is only ever set to ask for certificates it has signed.
        client_auth=(ClientAuth.NONE if section.tls_client_ca is None else ClientAuth.REQUIRED).value,
        crl=section.tls_crl,
        reload_interval_ms=reload_interval_ms,
    )
    return Certificates(files, clock, wheel)


def _end_of(file: Path) -> int | None:
    """Of the first certificate in the file, which is the node's own."""
    try:
        _, begin, rest = file.read_text(errors="replace").partition(_BEGIN)
        own, end, _ = rest.partition(_END)
        return expires_at_ms(PEM_cert_to_DER_cert(begin + own + end))
    except (OSError, ValueError, ProtocolError):
        return None


def _signature_of(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0  # a file that is not there
    # The inode too: tools replace files by renames and links, and such a file may have an older time and equal size.
    return status.st_mtime_ns, status.st_size, status.st_ino
