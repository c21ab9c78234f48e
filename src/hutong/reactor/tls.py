"""TLS for acceptors: the context of a listener, made from files.

Strategy: what Python's defaults for servers allow today (TLS 1.2 and later), nothing to configure but whose
certificates are shown and asked for. Knows nothing of connections.
"""

import ssl
from pathlib import Path
from typing import Final

from hutong.foundation.errors import UsageError

_EXIT_CONFIG: Final = 78


def server_context(certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> ssl.SSLContext:
    """Shows the certificate (chain) in a PEM file, whose key is in another one or in the same.

    With `client_ca`, clients must show a certificate that one of those authorities has signed. Raises UsageError where
    a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _unusable("certificate", f"{certificate} (key: {key or certificate})", error) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise _unusable("client authority", client_ca, error) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    """Asked for an encrypted key. Without this, OpenSSL would ask the terminal, and the node would wait for it."""
    raise ValueError("the key is encrypted; give one that is not")


def _unusable(what: str, file: object, error: Exception) -> UsageError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return UsageError(f"Cannot use the TLS {what} {file}: {reason}.", _EXIT_CONFIG)
