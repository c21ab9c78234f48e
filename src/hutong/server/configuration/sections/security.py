"""Security: authorization, passwords, tokens, and the certificates that a node shows and asks for."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import (
    DAY_MS,
    HOUR_MS,
    INT32_MAX,
    INT64_MAX,
    KIBIBYTE,
    MINUTE_MS,
    SECOND_MS,
    setting,
)


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Authorization by ACLs. Listeners say who is authenticated, and how."""

    authorize: bool = setting(
        False, "Whether requests are checked against ACLs. ACLs can only be created while they are."
    )
    super_users: tuple[str, ...] = setting(
        (), "Principals that may do everything, such as `User:admin`; a semicolon may stand between.", "super.users"
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False,
        "Whether everybody may use resources that no ACL is about; else nobody may but super users.",
        "allow.everyone.if.no.acl.found",
    )
    allow_plain: tuple[str, ...] = setting(
        (),
        "Listeners that may be open without TLS: kafka, rocketmq, schema-registry, metrics, tcp-bridge, sockjs, rpc, "
        "grpc, bus or all.",
    )


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Clients that log in. Users with passwords are kept by the node: `hutong user`."""

    enabled_mechanisms: tuple[str, ...] = setting(
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "What clients may choose from. PLAIN sends the password itself, through TLS; OAUTHBEARER takes access tokens.",
        "sasl.enabled.mechanisms",
    )
    listener_enabled_mechanisms: tuple[str, ...] = setting(
        (),
        "LISTENER:MECHANISM,MECHANISM: listeners that offer others. Kafka: "
        "listener.name.LISTENER.sasl.enabled.mechanisms.",
    )
    allow_without_tls: bool = setting(
        False, "Whether a listener may be SASL_PLAINTEXT: an eavesdropper learns or guesses passwords there."
    )
    server_max_receive_bytes: int = setting(
        512 * KIBIBYTE,
        "Largest request before a client is authenticated.",
        "sasl.server.max.receive.size",
        minimum=KIBIBYTE,
        maximum=INT32_MAX,
    )
    authentication_timeout_ms: int = setting(
        10 * SECOND_MS,
        "A connection that is not authenticated within this time is closed.",
        minimum=100,
        maximum=HOUR_MS,
    )
    failed_authentication_delay_ms: int = setting(
        100,
        "How long a failed authentication waits for its answer, with which its connection is closed.",
        "connection.failed.authentication.delay.ms",
        minimum=0,
        maximum=INT32_MAX,
    )
    guess_delay_max_ms: int = setting(
        2 * SECOND_MS,
        "Longest wait before a password is checked for a user who failed from the same address before; 0: none waits.",
        minimum=0,
        maximum=MINUTE_MS,
    )
    connections_max_reauth_ms: int = setting(
        0,
        "How long an authentication counts, until it must be repeated on the connection; 0: for the connection's life.",
        "connections.max.reauth.ms",
        minimum=0,
        maximum=INT64_MAX,
    )


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
        "Whether clients of SSL listeners show a certificate, which then identifies them.",
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


@dataclass(frozen=True, slots=True)
class OauthSettings:
    """Access tokens: whose they must be, and the keys that sign them. Needs the extra `oauth`."""

    jwks: str = setting(
        "",
        "The provider's key set: an https:// URL, or a file. http:// is for this machine alone.",
        "sasl.oauthbearer.jwks.endpoint.url",
    )
    jwks_ca: Path | None = setting(
        None, "PEM file with the authorities of that URL's certificate; without it the system's own."
    )
    jwks_refresh_interval_ms: int = setting(
        HOUR_MS,
        "Time between two fetches of the key set.",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        minimum=SECOND_MS,
        maximum=7 * DAY_MS,
    )
    jwks_unknown_key_interval_ms: int = setting(
        10 * SECOND_MS,
        "A token of an unknown key has the key set fetched, if the last fetch began so long ago.",
        minimum=100,
        maximum=HOUR_MS,
    )
    issuer: str = setting(
        "", "The issuer that tokens must name; empty: any that has the keys.", "sasl.oauthbearer.expected.issuer"
    )
    audience: tuple[str, ...] = setting(
        (), "Audiences, one of which tokens must name; none: any audience.", "sasl.oauthbearer.expected.audience"
    )
    scope: tuple[str, ...] = setting((), "Scopes, all of which tokens must have.")
    scope_claim: str = setting("scope", "The claim with the scopes.", "sasl.oauthbearer.scope.claim.name")
    principal_claim: str = setting("sub", "The claim with the user's name.", "sasl.oauthbearer.sub.claim.name")
    clock_skew_ms: int = setting(
        30 * SECOND_MS,
        "How much the provider's clock may differ. Kafka: sasl.oauthbearer.clock.skew.seconds.",
        minimum=0,
        maximum=10 * MINUTE_MS,
    )


@dataclass(frozen=True, slots=True)
class DelegationTokenSettings:
    """Tokens with which programs act for the user who asked for them."""

    secret_key: str = setting(
        "",
        "The secret from which tokens are made, the same at all nodes of a cluster; empty: there are no tokens.",
        "delegation.token.secret.key",
        secret=True,
    )
    max_lifetime_ms: int = setting(
        7 * DAY_MS,
        "How long a token can be renewed.",
        "delegation.token.max.lifetime.ms",
        minimum=1,
        maximum=INT64_MAX,
    )
    expiry_time_ms: int = setting(
        DAY_MS,
        "How long a token counts, when new or renewed.",
        "delegation.token.expiry.time.ms",
        minimum=1,
        maximum=INT64_MAX,
    )
