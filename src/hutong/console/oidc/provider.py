"""The places of a provider, as it describes them itself.

Knows nothing of how they were found.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """The places of a provider. `names_itself`: its answers have `iss` (RFC 9207)."""

    issuer: str
    authorization_url: str
    token_url: str
    keys_url: str
    logout_url: str | None
    names_itself: bool
    takes_basic: bool
