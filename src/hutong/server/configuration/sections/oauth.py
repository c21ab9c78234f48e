"""Clients that log in with access tokens of an OpenID Connect provider (SASL/OAUTHBEARER)."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, setting


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
