"""TLS on a client's socket, and OpenSSL's errors in words that say which setting to look at.

What fails here does not pass by waiting, except where the connection merely ended: that may be a broker going down.

Knows nothing of Kafka's messages.
"""

import socket
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.security import Tls
from hutong.pipelines.errors import AccessDenied, Unavailable

EXPIRED = 10
NOT_YET_VALID = 9
OTHER_NAME = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH and of an IP address
LAST_WORDS_S = 0.5
KEYSTORE = "kafka.ssl.keystore.location"
TRUSTSTORE = "kafka.ssl.truststore.location"
ALERTS = {
    "CERTIFICATE_REQUIRED": f"it asks for a certificate: set {KEYSTORE}",
    "UNKNOWN_CA": f"it does not know the authority of our certificate: check {KEYSTORE}",
    "CERTIFICATE_EXPIRED": f"our certificate has expired: renew what is in {KEYSTORE}",
    "CERTIFICATE_REVOKED": f"our certificate was revoked: renew what is in {KEYSTORE}",
    "BAD_CERTIFICATE": f"it does not accept our certificate, or wants one: check {KEYSTORE}",
    "CERTIFICATE_UNKNOWN": f"it does not accept our certificate: check {KEYSTORE}",
    "ACCESS_DENIED": f"it does not let in who our certificate names: check {KEYSTORE}",
    "PROTOCOL_VERSION": "it speaks no version of TLS that this Python allows: TLS 1.2 or 1.3 is needed",
    "HANDSHAKE_FAILURE": f"it shares no cipher with us, or wants a certificate: check {KEYSTORE}",
}
"""By the end of OpenSSL's name for an alert of the other side (RFC 8446, section 6.2)."""
NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})


def context_of(tls: Tls) -> ssl.SSLContext:
    """Raises UsageError when a file or text cannot be used; no content of it is repeated."""
    try:
        context = ssl.create_default_context(cafile=tls.trusted_path or None, cadata=tls.trusted_pem or None)
    except OSError as error:
        where = tls.trusted_path or "kafka.ssl.truststore.certificates"
        raise UsageError(f"the trusted certificates in {where} cannot be used: {_why(error)}") from error
    context.check_hostname = tls.checks_name
    try:
        if tls.identity_path:
            context.load_cert_chain(tls.identity_path, password=tls.key_password)
        elif tls.certificate_pem:
            _load_identity(context, tls)
    except OSError as error:
        where = tls.identity_path or "kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key"
        raise UsageError(f"our certificate and key in {where} cannot be used: {_why(error)}") from error
    return context


def shake_hands(transport: socket.socket, host: str, peer: str, tls: Tls) -> ssl.SSLSocket:
    """TLS over a connected socket. Raises AccessDenied, Unavailable or UsageError; the socket is then closed."""
    try:
        return context_of(tls).wrap_socket(transport, server_hostname=host.strip("[]"))
    except OSError as error:
        transport.close()
        raise broken(error, peer, tls) from error
    except UsageError:
        transport.close()
        raise


def broken(error: OSError, peer: str, tls: Tls) -> AccessDenied | Unavailable:
    """Translate an OSError into the reason for a failed TLS connection."""
    denied = denial(error, peer)
    if denied is not None:
        return denied
    # Our side refused: the broker's certificate is expired, of another name, or unknown.
    if isinstance(error, ssl.SSLCertVerificationError):
        return _mistrust(error, peer, tls)
    if isinstance(error, TimeoutError):
        return Unavailable(f"the broker at {peer} did not answer in time to TLS")
    return Unavailable(f"the broker at {peer} ended the connection when TLS began: does that port speak TLS?")


def denial(error: OSError, peer: str) -> AccessDenied | None:
    """Return the peer's refusal if a TLS alert is the cause of the error."""
    reason = getattr(error, "reason", None) or ""
    if reason in NOT_TLS:
        return AccessDenied(
            f"the port {peer} does not speak TLS: set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or take "
            "the port of a listener with TLS"
        )
    # OpenSSL names alerts of the other side ..._ALERT_NAME; the rest are failures of our own.
    if "ALERT_" not in reason:
        return None
    alert = reason.partition("ALERT_")[2]
    reason = ALERTS.get(alert, f"it says '{alert.lower().replace('_', ' ')}'")
    return AccessDenied(f"the broker at {peer} refused the connection by TLS: {reason}")


def last_words(transport: socket.socket, error: OSError) -> OSError:
    """The alert that a broker sent before it closed, where sending to it failed; else the error itself."""
    if not isinstance(transport, ssl.SSLSocket) or isinstance(error, ssl.SSLError | TimeoutError):
        return error
    with suppress(OSError, ValueError):
        transport.settimeout(LAST_WORDS_S)
        try:
            transport.recv(1)
        except ssl.SSLError as reason:
            return reason
    return error


def _mistrust(error: ssl.SSLCertVerificationError, peer: str, tls: Tls) -> AccessDenied:
    trusted = f"in {tls.trusted_path}" if tls.trusted_path else f"that we trust: set {TRUSTSTORE}"
    if tls.trusted_pem:
        trusted = "in kafka.ssl.truststore.certificates"
    if error.verify_code == EXPIRED:
        why = "its certificate has expired: have it renewed there"
    elif error.verify_code == NOT_YET_VALID:
        why = "its certificate is not valid yet: check the clocks of both machines"
    elif error.verify_code in OTHER_NAME:
        why = f"its certificate is for another name ({error.verify_message.rstrip('.')})"
    else:
        why = f"its certificate is signed by no authority {trusted} ({error.verify_message})"
    return AccessDenied(f"the broker at {peer} is not trusted: {why}")


def _load_identity(context: ssl.SSLContext, tls: Tls) -> None:
    """OpenSSL takes files alone: one that only we can read, for as long as it is read."""
    with tempfile.TemporaryDirectory(prefix="hutong-tls-") as folder:
        path = Path(folder) / "identity.pem"
        path.touch(mode=0o600)
        path.write_text(f"{tls.key_pem}\n{tls.certificate_pem}\n")
        context.load_cert_chain(path, password=tls.key_password)


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").lower().replace("_", " ")
        return f"they are not as PEM should be, or the password is wrong ({reason or 'no reason is given'})"
    return error.strerror or str(error)
