"""Settings of the schema registry."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import Address, setting


@dataclass(frozen=True, slots=True)
class SchemaRegistrySettings:
    """The listener for clients of a schema registry."""

    listen: Address | None = setting(None, "HOST:PORT of its REST API; there is no registry where it is not set.")
    authentication: str = setting(
        "none",
        "none: everybody, or those whose certificate `schema_registry.tls_client_ca` asks for; basic: the users of "
        "SASL, by name and password.",
        choices=("none", "basic"),
    )
    hosts: tuple[str, ...] = setting(
        (),
        "Names by which it is reached, in addition to addresses, localhost, and the advertised name; *: all. Without "
        "any a listener of a network takes every name.",
    )
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; plain HTTP where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with authorities, one of which must have signed a certificate that the client shows."
    )
    tls_crl: Path | None = setting(None, "Revocation lists for their certificates, as in `tls.crl`.")
    max_connections: int = setting(1_000, "Open connections in total.", minimum=1, maximum=1_000_000)
