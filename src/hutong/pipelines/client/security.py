"""Settings of TLS and SASL: values that travel with a query's plan to every worker.

Their repr shows no secret, since settings end up in logs and errors. `tls` applies them to OpenSSL, `sasl` to SASL.
"""

from dataclasses import dataclass, field

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Tls:
    """Trusted authorities and our own certificate, as PEM files.

    Each connection reads them again, so renewal takes effect.

    Without trusted authorities those of the machine apply. `identity_path` holds our certificates and their key.
    """

    trusted_path: str = ""
    trusted_pem: str = ""
    identity_path: str = ""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    checks_name: bool = True
    """True if the broker's certificate must be valid for the host name of the connection."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A user's name and password, for PLAIN or a SCRAM mechanism. For OAUTHBEARER the password is an access token."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """Plain text without authentication, unless set."""

    tls: Tls | None = None
    login: SaslLogin | None = None


UNSECURED = Security()
