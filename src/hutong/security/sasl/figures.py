"""Counters of SASL authentications.

Knows nothing of how they are exposed.
"""

from dataclasses import dataclass, field

from hutong.security.sasl.steps import SaslFault


@dataclass(slots=True)
class SaslFigures:
    """Of all listeners of a node. Totals rise for as long as it runs."""

    succeeded_total: dict[str, int] = field(default_factory=dict)  # by mechanism
    again_total: dict[str, int] = field(default_factory=dict)  # by mechanism: re-authentications (KIP-368)
    failed_total: dict[SaslFault, int] = field(default_factory=lambda: dict.fromkeys(SaslFault, 0))
    expired_total: int = 0  # connections closed because they were used after their session's end
    delayed_total: int = 0  # checks of passwords that waited because of failures before
