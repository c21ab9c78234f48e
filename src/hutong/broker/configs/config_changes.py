"""Changes of settings, whichever resource has them: single ones (KIP-339), or all of a resource at once (KIP-133).

Strategy: both kinds come down to the whole of what a resource has set, old and new together, which the resource's own
room then checks and keeps. What is asked for twice, or of no resource that is here, is refused before that.

Knows nothing of request bodies: changes are (name, operation, value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hutong.broker.configs import loggers
from hutong.broker.configs.metrics_configs import METRICS_KEYS
from hutong.broker.rights.authorization import check, check_cluster
from hutong.broker.topics.topic_config import KEYS, ConfigKey, ConfigType, check_overrides
from hutong.foundation.errors import HutongError, Refused
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.configs.parts import AdminParts
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.partition import Topic

TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
METRICS: Final = 16
GROUP: Final = 32

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

Change = tuple[str, int, str | None]
Then = Callable[[HutongError | None], None]


def alter_single(
    kind: int, name: str, changes: Sequence[Change], validate_only: bool, broker: AdminParts, then: Then
) -> None:
    """Change what is named, leave the rest. Raises Refused."""
    check_once([change[0] for change in changes])
    if any(operation == SET and value is None for _, operation, value in changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "A setting is set to something.")
    if kind == TOPIC:
        topic = _topic(name, broker)
        overrides = _changed(topic.overrides, changes, KEYS.get, broker.topics.defaults)
        _put_topic(topic, overrides, validate_only, broker, then)
    elif kind == BROKER:
        configs = broker.admin.node_configs
        configs.check_name(name)
        now = {KEYS[key].node_name: value for key, value in broker.topics.defaults.items()}
        _put_node(name, _changed(configs.of(name), changes, configs.key, now), validate_only, broker, then)
    elif kind == LOGGER:
        _change_loggers(name, changes, validate_only, broker)
        then(None)
    elif kind == METRICS:
        overrides = _changed(broker.admin.metrics_configs.of(name), changes, METRICS_KEYS.get, {})
        _put_metrics(name, overrides, validate_only, broker, then)
    else:
        raise _unknown(kind)


def alter_whole(
    kind: int, name: str, values: Iterable[tuple[str, str | None]], validate_only: bool, broker: AdminParts, then: Then
) -> None:
    """Set what is named, take all else back. Raises Refused."""
    named = list(values)
    check_once([key for key, _ in named])
    overrides: dict[str, str] = {}
    for key, value in named:
        if value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for {key[:100]}")
        overrides[key] = value
    if kind == TOPIC:
        _put_topic(_topic(name, broker), overrides, validate_only, broker, then)
    elif kind == BROKER:
        broker.admin.node_configs.check_name(name)
        _put_node(name, overrides, validate_only, broker, then)
    elif kind == METRICS:
        _put_metrics(name, overrides, validate_only, broker, then)
    elif kind == GROUP and validate_only:
        broker.group_configs.check(overrides)
        then(None)
    elif kind == GROUP:
        broker.group_configs.alter(name, overrides, then)
    else:
        raise _unknown(kind)


def check_configs(context: RequestContext[AdminParts], operation: Operation, kind: int, name: str) -> None:
    """Raises Refused where the client may not do that with the settings of a resource."""
    if kind == TOPIC:
        check(context, operation, ResourceType.TOPIC, name)
    elif kind == GROUP:
        check(context, operation, ResourceType.GROUP, name)
    elif kind in (BROKER, LOGGER, METRICS):
        check_cluster(context, operation)


def check_once(names: Sequence[str]) -> None:
    """Raises Refused(INVALID_REQUEST) where a setting is named twice."""
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "A request names a setting of a resource once.")


def _changed(
    overrides: Mapping[str, str],
    changes: Iterable[Change],
    key_of: Callable[[str], ConfigKey | None],
    defaults: Mapping[str, str],
) -> dict[str, str]:
    """The overrides after the changes, which are checked later. Raises Refused."""
    wanted = dict(overrides)
    for name, operation, value in changes:
        key = key_of(name)
        if operation == DELETE:
            wanted.pop(name, None)
        elif operation == SET:
            wanted[name] = value or ""
        elif operation not in (APPEND, SUBTRACT):
            raise Refused(ErrorCode.INVALID_REQUEST, f"There is no operation {operation}.")
        elif key is None or key.type is not ConfigType.LIST:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{name[:100]} is not a list.")
        else:
            now = [item for item in wanted.get(name, defaults.get(name, key.default)).split(",") if item]
            named = (value or "").split(",")
            if operation == APPEND:
                wanted[name] = ",".join([*now, *(item for item in named if item not in now)])
            else:
                wanted[name] = ",".join(item for item in now if item not in named)
    return wanted


def _topic(name: str, broker: AdminParts) -> Topic:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "The settings of all topics are the node's.")
    topic = broker.topics.get(name)
    if topic is None or topic.is_internal:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    return topic


def _put_topic(topic: Topic, overrides: dict[str, str], validate_only: bool, broker: AdminParts, then: Then) -> None:
    if validate_only:
        check_overrides(overrides)
        then(None)
    else:
        broker.topics.alter(topic, overrides, then)


def _put_node(name: str, overrides: dict[str, str], validate_only: bool, broker: AdminParts, then: Then) -> None:
    if validate_only:
        broker.admin.node_configs.check(name, overrides)
        then(None)
    else:
        broker.admin.node_configs.alter(name, overrides, then)


def _put_metrics(name: str, overrides: dict[str, str], validate_only: bool, broker: AdminParts, then: Then) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription has a name.")
    if validate_only:
        broker.admin.metrics_configs.check(overrides)
        then(None)
    else:
        broker.admin.metrics_configs.alter(name, overrides, then)


def _change_loggers(name: str, changes: Sequence[Change], validate_only: bool, broker: AdminParts) -> None:
    if name != str(broker.identity.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {broker.identity.node_id}.")
    if any(operation not in (SET, DELETE) for _, operation, _ in changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Levels of loggers are no lists.")
    wanted = {key: value if operation == SET else None for key, operation, value in changes}
    loggers.change(wanted, validate_only)


def _unknown(kind: int) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no settings here that could be changed.")
