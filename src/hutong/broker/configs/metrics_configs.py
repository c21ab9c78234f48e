"""Subscriptions to clients' metrics (KIP-714): kept and shown, and no client is asked for metrics.

Knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.broker.topics.topic_config import ConfigKey, ConfigType
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

SUBSCRIPTIONS_MAX: Final = 1_000
_INTERVALS_MS: Final = range(100, 3_600_001)


def _interval(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) in _INTERVALS_MS


def _anything(_text: str) -> bool:
    return True


METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey("interval.ms", ConfigType.INT, "300000", _interval, "How often clients would send their metrics."),
        ConfigKey("match", ConfigType.LIST, "", _anything, "Which clients would send them."),
        ConfigKey("metrics", ConfigType.LIST, "", _anything, "Which metrics they would send."),
    )
}


class MetricsConfigs:
    """Subscriptions by their names."""

    def __init__(self) -> None:
        self._table = DurableTable("metrics-config/", SUBSCRIPTIONS_MAX)
        self.replay = self._table.replay

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def names(self) -> list[str]:
        return sorted(self._table.entries)

    def of(self, name: str) -> dict[str, str]:
        """A subscription's settings, including those that are being written."""
        return dict(self._table.latest(name) or {})

    def check(self, overrides: Mapping[str, str]) -> None:
        """Check the names and values of settings. Raises Refused."""
        for name, value in overrides.items():
            key = METRICS_KEYS.get(name)
            if key is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name[:100]}")
            if not key.accepts(value):
                raise Refused(ErrorCode.INVALID_CONFIG, key.refusal(value))

    def alter(self, name: str, overrides: Mapping[str, str], then: Continuation[None]) -> None:
        """Replace a subscription; `then` is called once that is durable. Raises Refused."""
        self.check(overrides)
        self._table.put(name, dict(overrides) or None, then)
