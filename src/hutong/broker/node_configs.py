"""The node's own settings as clients see and change them while it runs (KIP-226).

Strategy: a setting comes from four layers: set for this node, set for all nodes of the cluster, given when the node was
started, built in. The first two are durable and can be changed here, for those settings that the defaults of topics are
made of: they are the ones that a running node can go by. All others are told, and changed by starting the node anew.

Knows nothing of requests, nor of how a topic goes by its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.durable_table import DurableTable
from hutong.broker.topic_config import KEYS, NODE_NAMES, ConfigKey, ConfigType
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics import StateLog
    from hutong.foundation.errors import HutongError

SOURCE_TOPIC: Final = 1
SOURCE_NODE: Final = 2  # DYNAMIC_BROKER_CONFIG
SOURCE_CLUSTER: Final = 3  # DYNAMIC_DEFAULT_BROKER_CONFIG
SOURCE_STATIC: Final = 4
SOURCE_DEFAULT: Final = 5
CLUSTER: Final = ""
"""The name under which the settings of all nodes are kept; a node's own are kept under its id."""

_NO_SETTING_OF_NODES: Final = frozenset(
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    )
)
CHANGEABLE: Final[Mapping[str, ConfigKey]] = {
    NODE_NAMES.get(name, name): key for name, key in KEYS.items() if name not in _NO_SETTING_OF_NODES
}
"""The settings that can be changed while the node runs, by the names that Kafka gives them for brokers."""

Layer = tuple[str, int]
"""A value and its source."""


class NodeConfigs:
    """All layers. `topic_defaults` are those settings of topics that the node was started with, by topics' names."""

    def __init__(self, node_id: int, topic_defaults: Mapping[str, str]) -> None:
        self._node_name = str(node_id)
        self._started_with = dict(topic_defaults)
        self._table = DurableTable("node-config/", entries_max=2)
        self._table.on_change.append(lambda _name, _value: self.on_change())
        self.static: Mapping[str, str] = {}  # every setting with a Kafka name, as the node was started
        self.unset: frozenset[str] = frozenset()  # those of them that are as built in
        self.on_change: Callable[[], None] = lambda: None
        self.replay = self._table.replay

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def check_name(self, name: str) -> None:
        """Whether this resource is here: the node's id, or empty for all. Raises Refused(INVALID_REQUEST)."""
        if name in (CLUSTER, self._node_name):
            return
        if not name.lstrip("-").isdecimal():
            raise Refused(ErrorCode.INVALID_REQUEST, "The id of a node is a number.")
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {self._node_name}, not {name[:100]}.")

    def of(self, name: str) -> dict[str, str]:
        """What was set for this node, or for all; what is on its way to the disk included."""
        return dict(self._table.latest(name) or {})

    def check(self, overrides: Mapping[str, str]) -> None:
        """Raises Refused with Kafka's codes."""
        for name, value in overrides.items():
            key = CHANGEABLE.get(name)
            if key is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{name[:100]} cannot be changed while the node runs.")
            if not key.accepts(value):
                raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid value {value[:100]!r} for configuration {name}")

    def alter(self, name: str, overrides: Mapping[str, str], then: Callable[[HutongError | None], None]) -> None:
        """Replace what was set; `then` is called once that is durable. Raises Refused."""
        self.check(overrides)
        self._table.put(name, dict(overrides) or None, then)

    def topic_defaults(self) -> dict[str, str]:
        """What counts for topics that have no setting of their own, by topics' names."""
        defaults = dict(self._started_with)
        for name in (CLUSTER, self._node_name):
            entries: Mapping[str, Any] = self._table.entries.get(name) or {}
            defaults |= {CHANGEABLE[key].name: value for key, value in entries.items() if key in CHANGEABLE}
        return defaults

    def layers(self, key: ConfigKey) -> list[Layer]:
        """Where the node's value of a topic's setting comes from, from the strongest to the built-in default."""
        layers = []
        for name, source in ((self._node_name, SOURCE_NODE), (CLUSTER, SOURCE_CLUSTER)):
            entries = self._table.entries.get(name) or {}
            if key.node_name in entries:
                layers.append((entries[key.node_name], source))
        if key.name in self._started_with:
            layers.append((self._started_with[key.name], SOURCE_STATIC))
        return [*layers, (key.default, SOURCE_DEFAULT)]

    def fixed(self, name: str) -> Layer:
        """A setting that cannot be changed, as the node was started."""
        return self.static[name], SOURCE_DEFAULT if name in self.unset else SOURCE_STATIC


def type_of(value: str) -> ConfigType:
    """The type of a setting of which only a value is known."""
    if value in ("true", "false"):
        return ConfigType.BOOLEAN
    return ConfigType.LONG if value.lstrip("-").isdecimal() else ConfigType.STRING
