"""Delegation tokens (KIP-48)."""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import DAY_MS, INT64_MAX, setting


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
