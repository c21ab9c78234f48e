"""The settings of journals and of cleaning that a running node follows, under Kafka's names (KIP-226)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.topic_config import INT32_MAX, INT64_MAX, ConfigKey, ConfigType, whole
from hutong.journal.clean.newest_keys import keys_in

if TYPE_CHECKING:
    from hutong.broker.configs.node_configs import NodeConfigs
    from hutong.journal.settings import JournalSettings

BACKOFF_MS_MIN: Final = 10
_BACKOFF: Final = "log.cleaner.backoff.ms"
_BUFFER: Final = "log.cleaner.dedupe.buffer.size"
_BYTES_PER_SECOND: Final = "log.cleaner.io.max.bytes.per.second"
_PRODUCER_EXPIRY: Final = "producer.id.expiration.ms"


def _rate(text: str) -> bool:
    """Accept the numbers that Kafka accepts here: it has a double for this setting, 1.7976931348623157E308 for none."""
    try:
        return 0.0 <= float(text) < float("inf")
    except ValueError:
        return False


CLEANER_KEYS: Final = (
    ConfigKey(
        _BACKOFF,
        ConfigType.LONG,
        "15000",
        whole(BACKOFF_MS_MIN, INT64_MAX),
        "Time between two looks for something to clean.",
    ),
    ConfigKey(
        _BUFFER,
        ConfigType.LONG,
        "16777216",
        whole(64 * 1024, INT32_MAX),
        "Memory for the keys of one cleaning, from its next pass on.",
    ),
    ConfigKey(
        _BYTES_PER_SECOND,
        ConfigType.DOUBLE,
        "33554432",
        _rate,
        "Bytes that cleaning reads and writes in a second; 0: no bound.",
    ),
    ConfigKey(
        _PRODUCER_EXPIRY,
        ConfigType.INT,
        "86400000",
        whole(1000, INT32_MAX),
        "A silent idempotent producer is forgotten after this.",
    ),
)


def cleaner_backoff_ms(configs: NodeConfigs) -> int:
    """The values now in effect."""
    return int(configs.value(_BACKOFF))


def altered_journal_settings(settings: JournalSettings, configs: NodeConfigs) -> JournalSettings:
    """The settings of a journal of topics with what counts now."""
    return replace(
        settings,
        producer_expiry_ms=int(configs.value(_PRODUCER_EXPIRY)),
        clean_keys_max=keys_in(int(configs.value(_BUFFER))),
        # A budget under one byte would never let cleaning go on; 0 is no bound.
        clean_bytes_per_second_max=math.ceil(float(configs.value(_BYTES_PER_SECOND))),
    )
