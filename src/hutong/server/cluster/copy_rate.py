"""The rate of copies between nodes, as a setting that a running node follows, under Kafka's name (KIP-73, KIP-226)."""

from typing import Final

from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.topics.topic_config import INT64_MAX, ConfigKey, ConfigType, whole
from hutong.replication.copy_pace import CopyPace

NAME: Final = "leader.replication.throttled.rate"
DEFAULT: Final = 128 * 1024 * 1024
_KEY: Final = ConfigKey(
    NAME,
    ConfigType.LONG,
    str(DEFAULT),
    whole(1, INT64_MAX),
    "Bytes that replicas which are not in sync get from a node's disk in a second, and that it takes as whole files.",
)


def copy_pace(configs: NodeConfigs, started_with: int) -> CopyPace:
    """A pace that follows the node's settings from now on."""
    configs.add([_KEY], {} if started_with == DEFAULT else {NAME: str(started_with)})
    pace = CopyPace(started_with)
    configs.on_change.append(lambda: pace.alter(int(configs.value(NAME))))
    return pace
