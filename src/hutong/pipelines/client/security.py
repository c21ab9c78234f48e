"""How a connection is protected and who we are on it: values that travel with a query's plan to every worker.

Their text shows no secret, since settings end up in logs and errors. What the values mean to OpenSSL stands in `tls`,
to SASL in `sasl`.
"""

from dataclasses import dataclass, field

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to believe and who we are, as PEM: files are read anew for each connection, so that renewed ones count.

    Nothing trusted means the authorities of the machine. `identity_path` holds our certificates and their key.
    """

    trusted_path: str = ""
    trusted_pem: str = ""
    identity_path: str = ""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    checks_name: bool = True
    """Whether the broker's certificate must be for the name that we connect to."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user's name and password, for PLAIN or a SCRAM mechanism."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """Plain text and nobody in particular, unless told otherwise."""

    tls: Tls | None = None
    login: Login | None = None


UNSECURED = Security()
