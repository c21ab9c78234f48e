"""TLS for acceptors: the context of a listener, made from files.

Strategy: what Python's defaults for servers allow today (TLS 1.2 and later), less what nobody needs here: no resumed
sessions, so that every connection shows its certificate anew; no renegotiation, with which a client makes a node work
for nothing. Knows nothing of connections.
"""

import ssl
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError


class ClientAuth(StrEnum):
    """The demand for client certificates (ssl.client.auth)."""

    NONE = "none"
    REQUESTED = "requested"  # a client without one is admitted
    REQUIRED = "required"


class TlsVersion(StrEnum):
    """The least version that is spoken."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class CrlCheck(StrEnum):
    """The part of a client's chain that is checked against revocation lists, where there are any."""

    LEAF = "leaf"  # the client's own certificate
    CHAIN = "chain"  # and those of all authorities above it, each of which needs a list then


_VERSIONS: Final = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_CRL_FLAGS: Final = {
    CrlCheck.LEAF: ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF,
    CrlCheck.CHAIN: ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN,
}


def server_context(
    certificate: Path,
    key: Path | None = None,
    client_ca: Path | None = None,
    *,
    client_auth: ClientAuth | None = None,
    version: TlsVersion = TlsVersion.TLS_1_2,
    ciphers: str = "",
    key_password: str = "",
    crl_files: Sequence[Path] = (),
    crl_check: CrlCheck = CrlCheck.LEAF,
) -> ssl.SSLContext:
    """Show the certificate (chain) in a PEM file, whose key is in another one or in the same.

    With `client_ca`, clients must show a certificate that one of those authorities has signed, unless `client_auth`
    says otherwise. `ciphers` are those of TLS 1.2 in OpenSSL's words, its own choice where empty. With `crl_files`
    (PEM) a revoked certificate is refused, and so is one whose authority has no valid list there. Raises UsageError
    where a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _VERSIONS[version]
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise UsageError(f"OpenSSL knows none of the TLS ciphers {ciphers!r}.", ExitCode.CONFIG) from None
    try:
        context.load_cert_chain(certificate, key, password=key_password or _no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        place = f"key: {key}" if key is not None else "its key is looked for in the same file"
        raise _unusable("certificate", f"{certificate} ({place})", error) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise _unusable("client authority", client_ca, error) from None
        context.verify_mode = _VERIFY_MODES[client_auth or ClientAuth.REQUIRED]
        if crl_files:
            _add_crls(context, crl_files, crl_check)
    return context


def _add_crls(context: ssl.SSLContext, files: Sequence[Path], check: CrlCheck) -> None:
    for file in files:
        try:
            context.load_verify_locations(file)
        except (OSError, ValueError) as error:
            raise _unusable("revocation list", file, error) from None
    context.verify_flags |= _CRL_FLAGS[check]


def _no_password() -> str:
    """Asked for an encrypted key. Without this, OpenSSL would ask the terminal, and the node would wait for it."""
    raise ValueError("the key is encrypted; give one that is not")


def _unusable(what: str, file: object, error: Exception) -> UsageError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return UsageError(f"Cannot use the TLS {what} {file}: {reason}.", ExitCode.CONFIG)
