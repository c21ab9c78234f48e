"""Subscriptions to clients' metrics (KIP-714), as administrators set them.

Knows nothing of requests, nor of the clients that match (`broker/telemetry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.broker.topics.topic_config import ConfigKey, ConfigType
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

SUBSCRIPTIONS_MAX: Final = 1_000
INTERVAL_MS_DEFAULT: Final = 300_000
PATTERN_MEMORY_BYTES_MAX: Final = 64 * 1024
_INTERVALS_MS: Final = range(100, 3_600_001)
_PROPERTIES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _interval(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) in _INTERVALS_MS


def _anything(_text: str) -> bool:
    return True


def _is_match(text: str) -> bool:
    try:
        matches_of(text)
    except ValueError:
        return False
    return True


def matches_of(text: str) -> dict[str, Any]:
    """Parse `NAME=PATTERN,...` into compiled patterns by the names of properties. Raises ValueError."""
    patterns: dict[str, Any] = {}
    for part in text.split(","):
        name, sign, pattern = part.partition("=")
        name = name.strip()
        if not part.strip():
            continue
        if not sign or name not in _PROPERTIES or name in patterns:
            raise ValueError(f"{part[:100]!r} is no property with its pattern")
        patterns[name] = _compiled(pattern.strip())
    return patterns


def metrics_of(text: str) -> tuple[str, ...]:
    """The names, or beginnings of names, of metrics."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _compiled(pattern: str) -> Any:
    import re2  # few nodes have subscriptions, and every start would pay for it

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise ValueError(f"{pattern[:100]!r} is no pattern of RE2") from None


METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(
            "interval.ms", ConfigType.INT, str(INTERVAL_MS_DEFAULT), _interval, "How often clients send their metrics."
        ),
        ConfigKey(
            "match", ConfigType.LIST, "", _is_match, "Which clients send them: NAME=PATTERN of their properties."
        ),
        ConfigKey(
            "metrics", ConfigType.LIST, "", _anything, "Which metrics they send, by the beginnings of names; * for all."
        ),
    )
}


class MetricsConfigs:
    """Subscriptions by their names."""

    def __init__(self) -> None:
        self._table = DurableTable("metrics-config/", SUBSCRIPTIONS_MAX)
        self.replay = self._table.replay
        self.on_change: list[Callable[[], None]] = []  # called once a change is durable
        self._table.on_change.append(lambda _name, _value: self._changed())

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def names(self) -> list[str]:
        return sorted(self._table.entries)

    def of(self, name: str) -> dict[str, str]:
        """A subscription's settings, including those that are being written."""
        return dict(self._table.latest(name) or {})

    def durable(self, name: str) -> Mapping[str, str]:
        """A subscription's settings as they count."""
        return self._table.entries.get(name) or {}

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

    def _changed(self) -> None:
        for notify in self.on_change:
            notify()
