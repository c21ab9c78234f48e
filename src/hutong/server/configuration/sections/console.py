"""The listener for the console."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import Address, setting


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console, a Kafka client of the users that sign in to it."""

    listen: Address | None = setting(None, "HOST:PORT where it is served; nothing listens where it is not set.")
    log: str = setting(
        "", "kafka://HOST:PORT[,HOST:PORT...] of the brokers that it shows; empty: a listener of this node."
    )
    client_config: Path | None = setting(
        None, "Properties of librdkafka, one name=value a line, by which it reaches them through TLS and SASL."
    )
    audit_config: Path | None = setting(
        None, "More such properties, with the user that writes the audit; without them the user that made a change."
    )
    read_only: bool = setting(False, "Refuse everything that changes something.")
    masks: tuple[str, ...] = setting(
        (), "TOPICS=EXPRESSION of what it hides in records: a topic's name (* for any text), an expression of RE2."
    )
    pipelines: Path | None = setting(
        None, "Folder of pipelines that it shows, as `.hutong/pipelines`; only of a node or console that is a command."
    )
    schema_registry: str = setting(
        "",
        "URL of the schema registry that it shows, which gets the name and password, or the token, of each session; "
        "empty: that of this node.",
    )
    schema_registry_ca: Path | None = setting(
        None, "PEM file with the authorities of its certificate; without it the system's own."
    )
    oidc_issuer: str = setting(
        "", "URL of the OpenID Connect provider where users may sign in, as in its tokens; empty: none."
    )
    oidc_client_id: str = setting("", "The name by which the provider knows the console.")
    oidc_client_secret: str = setting("", "The console's secret there; empty for a public client.", secret=True)
    oidc_scope: tuple[str, ...] = setting(
        ("openid",), "Scopes that are asked for; `offline_access` is what many providers want for renewing tokens."
    )
    oidc_parameters: tuple[str, ...] = setting(
        (), "NAME=VALUE that a login has, too, as audience=hutong, resource=urn:hutong or prompt=consent."
    )
    oidc_redirect_url: str = setting(
        "",
        "URL to which the provider sends browsers back; empty: /api/session/provider/return at the address that the "
        "browser has.",
    )
    oidc_ca: Path | None = setting(
        None, "PEM file with the authorities of the provider's certificate; without it the system's own."
    )
    tracing: bool = setting(
        False,
        "Whether bus and services are traced for a record's way, here and in the consoles of other nodes, though "
        "nothing is exported; which traces are sampled say OpenTelemetry's variables (extra tracing).",
    )
    hosts: tuple[str, ...] = setting(
        (), "Names by which it is reached, in addition to addresses, localhost, and the advertised name; *: all."
    )
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; plain HTTP where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with authorities, one of which must have signed a certificate that the client shows."
    )
    tls_crl: Path | None = setting(None, "Revocation lists for their certificates, as in `tls.crl`.")
