"""The node's own settings as clients see and change them while it runs (KIP-226).

Strategy: a setting comes from four layers: set for this node, set for all nodes of the cluster, given when the node was
started, built in. The first two are durable and can be changed here, for those settings that a running node can go by:
the defaults of topics, and the settings that other modules have added (`add`), which read them again after each change
(`on_change`). A setting of listeners is also one of each of them, under `listener.name.NAME.`, for this node
alone. All others are shown, and changed by restarting the node.

Knows nothing of requests, nor of what anybody does by a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.broker.topics.topic_config import KEYS, NODE_NAMES, ConfigKey, ConfigType
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

SOURCE_TOPIC: Final = 1
SOURCE_NODE: Final = 2  # DYNAMIC_BROKER_CONFIG
SOURCE_CLUSTER: Final = 3  # DYNAMIC_DEFAULT_BROKER_CONFIG
SOURCE_STATIC: Final = 4
SOURCE_DEFAULT: Final = 5
LISTENER_PREFIX: Final = "listener.name."
OVERRIDES_MAX: Final = 256
NODES_MAX: Final = 1_000
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
        self._node_started_with: dict[str, str] = {}
        self._keys: dict[str, ConfigKey] = dict(CHANGEABLE)
        self._of_listeners: set[str] = set()
        self._checks: list[Callable[[Mapping[str, str]], None]] = []
        self._table = DurableTable("node-config/", entries_max=1 + NODES_MAX)
        self._table.on_change.append(lambda _name, _value: self._changed())
        self.other_nodes: Callable[[], Iterable[int]] = lambda: ()  # whose settings may be changed here, too
        self.static: Mapping[str, str] = {}  # every setting with a Kafka name, as the node was started
        self.unset: frozenset[str] = frozenset()  # those of them that are as built in
        self.on_change: list[Callable[[], None]] = []
        self.replay = self._table.replay

    def add(
        self,
        keys: Iterable[ConfigKey],
        started_with: Mapping[str, str],
        *,
        of_listeners: Container[str] = (),
        check: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        """Let these settings be changed. `started_with` has what the node was given, also of listeners.

        A listener may have those in `of_listeners` for itself. `check` is asked about all that is to be set
        for the node, and raises Refused where it does not go together.
        """
        for key in keys:
            self._keys[key.node_name] = key
            if key.node_name in of_listeners:
                self._of_listeners.add(key.node_name)
        self._node_started_with |= started_with
        if check is not None:
            self._checks.append(check)

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    def key(self, name: str) -> ConfigKey | None:
        """The description of a setting of the node or of a listener; None if it cannot be changed."""
        prefix, base = _split(name)
        key = self._keys.get(base)
        return key if not prefix or base in self._of_listeners else None

    def names(self) -> set[str]:
        """The names of all settings that can be changed, and of those that a listener has for itself."""
        set_for_listeners = {name for name in self._node_started_with if _split(name)[0]}
        return {*self._keys, *set_for_listeners, *(name for name in self.of(self._node_name) if _split(name)[0])}

    def value(self, name: str) -> str:
        """The value in effect for the node."""
        return self.layers_of(name)[0][0]

    def value_of(self, listener: str, name: str) -> str | None:
        """The listener's own value, if it has one."""
        value, source = self.layers_of(listener_prefix(listener) + name)[0]
        return None if source == SOURCE_DEFAULT else value

    def check_name(self, name: str, *, may_be_other: bool = False) -> None:
        """Check that a resource is this node: its id, or empty for all nodes. Raises Refused(INVALID_REQUEST).

        With `may_be_other` it may also be another node of the cluster.
        """
        if name in (CLUSTER, self._node_name):
            return
        if not name.lstrip("-").isdecimal():
            raise Refused(ErrorCode.INVALID_REQUEST, "The id of a node is a number.")
        if may_be_other and name in map(str, self.other_nodes()):
            return
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {self._node_name}, not {name[:100]}.")

    def of(self, name: str) -> dict[str, str]:
        """The overrides for this node, or for all nodes, including those that are being written."""
        return dict(self._table.latest(name) or {})

    def check(self, resource: str, overrides: Mapping[str, str]) -> None:
        """Check the overrides of a resource. Raises Refused with Kafka's codes."""
        # All overrides of a resource are one record of the metadata, which has a bound.
        if len(overrides) > OVERRIDES_MAX:
            raise Refused(ErrorCode.INVALID_REQUEST, f"At most {OVERRIDES_MAX} settings can be changed.")
        for name, value in overrides.items():
            key = self.key(name)
            if key is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{name[:100]} cannot be changed while the node runs.")
            if not key.accepts(value):
                raise Refused(ErrorCode.INVALID_REQUEST, key.refusal(value, name))
        # KIP-226: a listener belongs to one node, so its settings cannot be those of all.
        if resource == CLUSTER and (alone := [name for name in overrides if _split(name)[0]]):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{alone[0][:100]} is a setting of one node: name the node.")
        for check in self._checks:
            check(overrides)

    def alter(self, name: str, overrides: Mapping[str, str], then: Continuation[None]) -> None:
        """Replace what was set; `then` is called once that is durable. Raises Refused."""
        self.check(name, overrides)
        self._table.put(name, dict(overrides) or None, then)

    def topic_defaults(self) -> dict[str, str]:
        """Defaults for topics without a setting of their own, under the names that topics use."""
        defaults = dict(self._started_with)
        for name in (CLUSTER, self._node_name):
            entries: Mapping[str, Any] = self._table.entries.get(name) or {}
            defaults |= {CHANGEABLE[key].name: value for key, value in entries.items() if key in CHANGEABLE}
        return defaults

    def layers(self, key: ConfigKey) -> list[Layer]:
        """The values of a topic's setting with their sources, from the strongest to the built-in default."""
        return self._layers(key.node_name, self._started_with.get(key.name), key.default)

    def layers_of(self, name: str) -> list[Layer]:
        """The same for any setting that can be changed, by its name, which may be one of a listener's."""
        _, base = _split(name)
        key = self._keys[base]
        # Defaults of topics have another name at a topic than at the node, and were given under the topic's.
        if base in CHANGEABLE:
            return self.layers(key)
        return self._layers(name, self._node_started_with.get(name), key.default)

    def _layers(self, name: str, started_with: str | None, default: str) -> list[Layer]:
        # KIP-226: a value for this node wins over one for all nodes, and both over what the node was started with.
        layers = [
            (entries[name], source)
            for resource, source in ((self._node_name, SOURCE_NODE), (CLUSTER, SOURCE_CLUSTER))
            if name in (entries := self._table.entries.get(resource) or {})
        ]
        if started_with is not None:
            layers.append((started_with, SOURCE_STATIC))
        return [*layers, (default, SOURCE_DEFAULT)]

    def fixed(self, name: str) -> Layer:
        """A setting that cannot be changed, as the node was started."""
        return self.static[name], SOURCE_DEFAULT if name in self.unset else SOURCE_STATIC

    def _changed(self) -> None:
        for notify in self.on_change:
            notify()


def listener_prefix(listener: str) -> str:
    """The prefix of a listener's settings."""
    return f"{LISTENER_PREFIX}{listener.lower()}."


def _split(name: str) -> tuple[str, str]:
    """A setting's prefix, if it is one of a listener, and its name without that."""
    if not name.startswith(LISTENER_PREFIX):
        return "", name
    listener, _, base = name[len(LISTENER_PREFIX) :].partition(".")
    return listener_prefix(listener), base


def type_of(value: str) -> ConfigType:
    """The type of a setting of which only a value is known."""
    if value in ("true", "false"):
        return ConfigType.BOOLEAN
    return ConfigType.LONG if value.lstrip("-").isdecimal() else ConfigType.STRING
