"""Subscriptions to clients' metrics, as they are for one client (KIP-714).

Strategy: each subscription has patterns for a client's properties, in RE2's syntax, so that matching takes linear time.
Of all that match, the metrics are joined and the shortest interval counts. Patterns are compiled after each change.

Knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.configs.metrics_configs import INTERVAL_MS_DEFAULT, matches_of, metrics_of
from hutong.broker.telemetry.subscription import MetricSubscription

if TYPE_CHECKING:
    from hutong.broker.configs.metrics_configs import MetricsConfigs

ALL: Final = "*"


class MetricSubscriptions:
    """All of them, as `configs` has them now. `version` rises with every change."""

    def __init__(self, configs: MetricsConfigs) -> None:
        self._configs = configs
        self._compiled: list[tuple[Mapping[str, Any], tuple[str, ...], int]] | None = None
        self.version = 0
        configs.on_change.append(self._changed)

    def of(self, client: Mapping[str, str]) -> MetricSubscription:
        """Match a client by its properties."""
        if self._compiled is None:
            self._compiled = self._compile()
        found = [
            (metrics, interval_ms)
            for patterns, metrics, interval_ms in self._compiled
            if all(pattern.fullmatch(client.get(name, "")) for name, pattern in patterns.items())
        ]
        if not found:
            return MetricSubscription((), INTERVAL_MS_DEFAULT)
        metrics = {metric for each, _ in found for metric in each}
        # Kafka: all metrics are one star, and nothing else.
        asked = (ALL,) if ALL in metrics else tuple(sorted(metrics))
        return MetricSubscription(asked, min(interval_ms for _, interval_ms in found))

    def _compile(self) -> list[tuple[Mapping[str, Any], tuple[str, ...], int]]:
        compiled: list[tuple[Mapping[str, Any], tuple[str, ...], int]] = []
        for name in self._configs.names():
            settings = self._configs.durable(name)
            interval_ms = int(settings.get("interval.ms", INTERVAL_MS_DEFAULT))
            metrics = metrics_of(settings.get("metrics", ""))
            compiled.append((matches_of(settings.get("match", "")), metrics, interval_ms))
        return compiled

    def _changed(self) -> None:
        self._compiled = None
        self.version += 1
