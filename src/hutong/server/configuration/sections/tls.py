"""The certificates that a node shows and asks for.

Knows nothing of files, the environment or the command line.
"""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import HOUR_MS, SECOND_MS, setting


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of the listeners for Kafka clients that have it (SSL and SASL_SSL)."""

    certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown to clients.", "ssl.keystore.location"
    )
    key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    key_password: str = setting("", "Password of the key, where it is encrypted.", "ssl.key.password", secret=True)
    client_ca: Path | None = setting(
        None, "PEM file with the authorities that may have signed clients' certificates.", "ssl.truststore.location"
    )
    client_auth: str = setting(
        "none",
        "Whether clients of SSL listeners show a certificate; who does is known by it.",
        "ssl.client.auth",
        choices=("none", "requested", "required"),
    )
    listener_client_auth: tuple[str, ...] = setting(
        (),
        "LISTENER:required, requested or none: listeners that differ from `client_auth`. Those of SASL_SSL ask only by "
        "this (KIP-684). Kafka: listener.name.LISTENER.ssl.client.auth.",
    )
    crl: Path | None = setting(
        None,
        "PEM file of revocation lists, or folder of such files (`*.pem`, `*.crl`). A client's certificate is refused "
        "if it is revoked, or if no valid list of its authority is there.",
    )
    crl_check: str = setting(
        "leaf",
        "What is searched in them: the client's own certificate, or its chain up to the root.",
        choices=("leaf", "chain"),
    )
    principal_mapping_rules: str = setting(
        "DEFAULT",
        "How a certificate's subject becomes a user's name: RULE:pattern/replacement/[LU] or DEFAULT, with commas.",
        "ssl.principal.mapping.rules",
    )
    min_version: str = setting("TLSv1.2", "Oldest version that is spoken.", choices=("TLSv1.2", "TLSv1.3"))
    ciphers: str = setting("", "Ciphers of TLS 1.2, as OpenSSL writes them; empty: its own choice.")
    reload_interval_ms: int = setting(
        5 * SECOND_MS, "Time between two checks for changed files.", minimum=100, maximum=24 * HOUR_MS
    )
