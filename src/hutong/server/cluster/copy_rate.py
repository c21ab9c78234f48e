"""The rate of copies between nodes: settings that a running node follows, under Kafka's names, and moves with rates.

Strategy: a node has one pace for all that it copies. It goes by the least of its settings (KIP-73, KIP-226) and of the
rates of moves that it takes part in. A move takes its rate with it when it is done.

Knows nothing of what is copied.
"""

from collections.abc import Iterable
from typing import Final

from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.topics.topic_config import INT64_MAX, ConfigKey, ConfigType, whole
from hutong.cluster.records import PlannedMove
from hutong.foundation.pace import BytePace

LEADER_NAME: Final = "leader.replication.throttled.rate"
FOLLOWER_NAME: Final = "follower.replication.throttled.rate"
DEFAULT: Final = 128 * 1024 * 1024
_KEYS: Final = (
    ConfigKey(
        LEADER_NAME,
        ConfigType.LONG,
        str(DEFAULT),
        whole(1, INT64_MAX),
        "Bytes that replicas which are not in sync get from a node's disk in a second, and that it takes as whole "
        "files.",
    ),
    # Kafka's tool sets both names on every node of a move, to one rate.
    ConfigKey(
        FOLLOWER_NAME,
        ConfigType.LONG,
        str(INT64_MAX),
        whole(1, INT64_MAX),
        f"The same as {LEADER_NAME}: the lesser of the two counts.",
    ),
)


class CopyRate:
    """Keeps `pace` at the rate of this node."""

    def __init__(self, node: int, configs: NodeConfigs, started_with: int) -> None:
        configs.add(_KEYS, {} if started_with == DEFAULT else {LEADER_NAME: str(started_with)})
        configs.on_change.append(self._settle)
        self.pace: Final = BytePace(started_with)
        self._node = node
        self._configs = configs
        self._of_moves: tuple[int, ...] = ()

    def moves_changed(self, moves: Iterable[PlannedMove]) -> None:
        """Note all moves that are under way."""
        self._of_moves = tuple(
            move.copied_bytes_per_second_max
            for move in moves
            if move.copied_bytes_per_second_max and self._node in (*move.target, *move.before)
        )
        self._settle()

    def _settle(self) -> None:
        of_settings = (int(self._configs.value(name)) for name in (LEADER_NAME, FOLLOWER_NAME))
        self.pace.alter(min(*of_settings, *self._of_moves))
