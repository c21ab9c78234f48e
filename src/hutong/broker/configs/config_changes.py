"""Changes of settings, whichever resource has them: single ones (KIP-339), or all of a resource at once (KIP-133).

Strategy: both kinds come down to the whole of what a resource has set, old and new together, which the resource's own
module then checks and keeps. What is asked for twice, or of no resource that is here, is refused before that.

Knows nothing of request bodies: changes are (name, operation, value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.configs import loggers
from hutong.broker.configs.metrics_configs import METRICS_KEYS
from hutong.broker.rights.authorization import check, check_cluster
from hutong.broker.topics.topic_config import KEYS, ConfigKey, ConfigType, check_overrides
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
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
Check = Callable[[Any], object]  # of all overrides of a resource; raises Refused
Alter = Callable[[Any, Continuation[None]], None]  # keeps them, and calls back once that is durable


def alter_single(
    kind: int, name: str, changes: Sequence[Change], validate_only: bool, broker: AdminParts, then: Continuation[None]
) -> None:
    """Change what is named, leave the rest. Raises Refused."""
    check_once([change[0] for change in changes])
    if kind == GROUP:
        _put(*_keeper_of(kind, name, broker), _changed_group(name, changes, broker), validate_only, then)
        return
    # A null would be stored as an empty text: the default comes back by DELETE.
    if any(operation == SET and value is None for _, operation, value in changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "A setting is set to something.")
    if kind == TOPIC:
        topics = broker.topics
        overrides = _changed(topics.overrides_of(_topic(name, broker)), changes, KEYS.get, topics.defaults)
    elif kind == BROKER:
        configs = broker.admin.node_configs
        configs.check_name(name, may_be_other=True)
        # APPEND and SUBTRACT begin at what holds now, which for a node's list is the topics' default.
        now = {KEYS[key].node_name: value for key, value in broker.topics.defaults.items()}
        overrides = _changed(configs.of(name), changes, configs.key, now)
    elif kind == METRICS:
        overrides = _changed(broker.admin.metrics_configs.of(name), changes, METRICS_KEYS.get, {})
    else:
        # KIP-412: levels of loggers live in this process alone, so nothing is written and nothing is waited for.
        if kind != LOGGER:
            raise _unknown(kind)
        _change_loggers(name, changes, validate_only, broker)
        then(None)
        return
    _put(*_keeper_of(kind, name, broker), overrides, validate_only, then)


def alter_whole(
    kind: int,
    name: str,
    values: Iterable[tuple[str, str | None]],
    validate_only: bool,
    broker: AdminParts,
    then: Continuation[None],
) -> None:
    """Set what is named, revert all else to its default. Raises Refused."""
    named = list(values)
    check_once([key for key, _ in named])
    overrides: dict[str, str] = {}
    for key, value in named:
        if value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for {key[:100]}")
        overrides[key] = value
    if kind == BROKER:
        broker.admin.node_configs.check_name(name, may_be_other=True)
    _put(*_keeper_of(kind, name, broker), overrides, validate_only, then)


def check_configs(context: RequestContext[AdminParts], operation: Operation, kind: int, name: str) -> None:
    """Check the client's right to the settings of a resource. Raises Refused."""
    if kind == TOPIC:
        check(context, operation, ResourceType.TOPIC, name)
    elif kind == GROUP:
        check(context, operation, ResourceType.GROUP, name)
    # Kafka asks for the cluster's right where the resource is a node, its loggers or a client's metrics (KIP-412,
    # KIP-714).
    elif kind in (BROKER, LOGGER, METRICS):
        check_cluster(context, operation)


def check_once(names: Sequence[str]) -> None:
    """Check that no setting is named twice. Raises Refused(INVALID_REQUEST)."""
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
            # An item that is in the list already stays where it is, so that a repeated request changes nothing.
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


def _keeper_of(kind: int, name: str, broker: AdminParts) -> tuple[Check, Alter]:
    """The functions that check and keep the settings of a resource. Raises Refused."""
    if kind == TOPIC:
        return check_overrides, partial(broker.topics.alter, _topic(name, broker))
    if kind == BROKER:
        return partial(broker.admin.node_configs.check, name), partial(broker.admin.node_configs.alter, name)
    if kind == GROUP:
        return broker.group_configs.check, partial(broker.group_configs.alter, name)
    if kind != METRICS:
        raise _unknown(kind)
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription has a name.")
    return broker.admin.metrics_configs.check, partial(broker.admin.metrics_configs.alter, name)


def _put(check: Check, alter: Alter, overrides: dict[str, Any], validate_only: bool, then: Continuation[None]) -> None:
    # A check without effect: admin tools show the user what would be refused.
    if validate_only:
        check(overrides)
        then(None)
    else:
        alter(overrides, then)


def _changed_group(name: str, changes: Iterable[Change], broker: AdminParts) -> dict[str, str | None]:
    """The settings of a group after the changes. No setting of a group is a list."""
    configs = broker.group_configs
    overrides: dict[str, str | None] = dict(configs.latest(name))
    for key, operation, value in changes:
        # Checked before the operation, so that even the deletion of an unknown setting is refused.
        if key not in configs.keys:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key[:100]}")
        if operation == SET:
            overrides[key] = value
        elif operation == DELETE:
            overrides.pop(key, None)
        else:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{key} is not a list")
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    return overrides


def _change_loggers(name: str, changes: Sequence[Change], validate_only: bool, broker: AdminParts) -> None:
    # Levels are those of one process: a cluster has none in common.
    if name != str(broker.identity.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {broker.identity.node_id}.")
    if any(operation not in (SET, DELETE) for _, operation, _ in changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Levels of loggers are no lists.")
    wanted = {key: value if operation == SET else None for key, operation, value in changes}
    loggers.change(wanted, validate_only)


def _unknown(kind: int) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no settings here that could be changed.")
