"""The settings of cleaning that a running node can go by, under Kafka's names (KIP-226)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.topics.topic_config import INT64_MAX, ConfigKey, ConfigType, whole

if TYPE_CHECKING:
    from hutong.broker.configs.node_configs import NodeConfigs

BACKOFF_MS_MIN: Final = 10
_BACKOFF: Final = "log.cleaner.backoff.ms"
CLEANER_KEYS: Final = (
    ConfigKey(
        _BACKOFF,
        ConfigType.LONG,
        "15000",
        whole(BACKOFF_MS_MIN, INT64_MAX),
        "Time between two looks for something to clean.",
    ),
)


def cleaner_backoff_ms(configs: NodeConfigs) -> int:
    """What counts now."""
    return int(configs.value(_BACKOFF))
