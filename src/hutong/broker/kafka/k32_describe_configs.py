"""DescribeConfigs (key 32, versions 1-4): the settings of topics, groups, the node and its loggers (KIP-133, KIP-226).

Every setting is listed with its source: its own, set for the node or all nodes, given at the start, or built in.
The client needs DESCRIBE_CONFIGS of the topic, the group, or for all else of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hutong.broker.configs import loggers
from hutong.broker.configs.config_changes import BROKER, GROUP, LOGGER, METRICS, TOPIC, check_configs
from hutong.broker.configs.metrics_configs import METRICS_KEYS
from hutong.broker.configs.node_configs import (
    CLUSTER,
    SOURCE_CLUSTER,
    SOURCE_DEFAULT,
    SOURCE_TOPIC,
    Layer,
    type_of,
)
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.topics.catalogue import check_topic_name
from hutong.broker.topics.topic_config import KEYS, UNNAMED_DEFAULTS, ConfigKey, ConfigType
from hutong.foundation.errors import Refused
from hutong.groups.configs import GroupConfigKey
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 32
_SOURCE_LOGGER: Final = 6  # DYNAMIC_BROKER_LOGGER_CONFIG
_SOURCE_METRICS: Final = 7  # DYNAMIC_CLIENT_METRICS_CONFIG
_SOURCE_GROUP: Final = 8  # DYNAMIC_GROUP_CONFIG
_ONLY_AT_START: Final = "Read when the node starts."
_GROUPS_ALONE: Final = frozenset(("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"))


def handle(request: DescribeConfigsRequest, context: RequestContext[AdminParts]) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    for asked in request.resources:
        result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
        response.results.append(result)
        try:
            result.configs = _describe(asked, request, context)
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    return response


def _describe(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    describe = _DESCRIBERS.get(asked.resource_type)
    if describe is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Resource type {asked.resource_type} has no settings here.")
    check_configs(context, Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
    return describe(asked, request, context)


def _wanted(names: list[str] | None, known: Iterable[str]) -> list[str]:
    """The known names that were asked for; null and an empty list both ask for all of them."""
    return [name for name in known if not names or name in names]


def _describe_topic(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    check_topic_name(asked.resource_name)
    broker = context.broker
    topic = broker.topics.get(asked.resource_name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    results = []
    for name in _wanted(asked.configuration_keys, KEYS):
        layers = broker.admin.node_configs.layers(KEYS[name])
        if name in topic.overrides:
            layers.insert(0, (topic.overrides[name], SOURCE_TOPIC))
        results.append(_entry(KEYS[name], name, layers, request))
    return results


def _describe_node(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    """Every setting of the node; without a node's id, those that were set for all nodes while they run."""
    configs = context.broker.admin.node_configs
    configs.check_name(asked.resource_name)
    known: Iterable[str] = sorted({*configs.static, *configs.names()}) if asked.resource_name else configs.of(CLUSTER)
    results = []
    for name in _wanted(asked.configuration_keys, known):
        key = configs.key(name)
        # Settings that are read at the start are shown as well, but are read-only.
        if key is None:
            results.append(_fixed_entry(name, configs.fixed(name), request))
            continue
        layers = configs.layers_of(name)
        if not asked.resource_name:
            layers = [layer for layer in layers if layer[1] == SOURCE_CLUSTER]
        results.append(_entry(key, name, layers, request))
        for synonym in results[-1].synonyms:
            if synonym.source != SOURCE_DEFAULT:
                synonym.name = name
    return results


def _fixed_entry(name: str, layer: Layer, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=layer[0],
        read_only=True,
        config_source=layer[1],
        config_type=type_of(layer[0]),
        documentation=_ONLY_AT_START if request.include_documentation else None,
        synonyms=[DescribeConfigsSynonym(name, *layer)] if request.include_synonyms else [],
    )


def _describe_loggers(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    if asked.resource_name != str(context.broker.identity.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {context.broker.identity.node_id}.")
    levels = loggers.levels()
    return [
        DescribeConfigsResourceResult(
            name,
            levels[name],
            config_source=_SOURCE_LOGGER,
            documentation="" if request.include_documentation else None,
        )
        for name in _wanted(asked.configuration_keys, levels)
    ]


def _describe_metrics(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    """A subscription need not exist to be asked about, as with groups."""
    if not asked.resource_name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription has a name.")
    overrides = context.broker.admin.metrics_configs.of(asked.resource_name)
    results = []
    for name in _wanted(asked.configuration_keys, METRICS_KEYS):
        layers = [(METRICS_KEYS[name].default, SOURCE_DEFAULT)]
        if name in overrides:
            layers = [(overrides[name], _SOURCE_METRICS)]
        entry = _entry(METRICS_KEYS[name], name, layers, request)
        entry.synonyms = [synonym for synonym in entry.synonyms if synonym.source == _SOURCE_METRICS]
        results.append(entry)
    return results


def _describe_group(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext[AdminParts]
) -> list[DescribeConfigsResourceResult]:
    """A group need not exist to be asked about: what it would go by is the answer."""
    configs, group_id = context.broker.group_configs, asked.resource_name
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    overrides = configs.of(group_id)
    results = []
    for name in _wanted(asked.configuration_keys, configs.keys):
        key = configs.keys[name]
        layers = [(key.default, SOURCE_DEFAULT)]
        if name in overrides:
            layers.insert(0, (overrides[name], _SOURCE_GROUP))
        results.append(_group_entry(key, layers, request))
    return results


def _group_entry(
    key: GroupConfigKey, layers: list[tuple[str, int]], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    word = ConfigType.BOOLEAN if key.is_boolean else ConfigType.STRING
    return DescribeConfigsResourceResult(
        name=key.name,
        value=layers[0][0],
        config_source=layers[0][1],
        config_type=ConfigType.INT if key.is_number else word,
        documentation=key.documentation if request.include_documentation else None,
        synonyms=[_group_synonym(key.name, *layer) for layer in layers] if request.include_synonyms else [],
    )


def _group_synonym(name: str, value: str, source: int) -> DescribeConfigsSynonym:
    """The default of all groups is a setting of Kafka's brokers under another name, except for a few."""
    return DescribeConfigsSynonym(
        name if source == _SOURCE_GROUP or name in _GROUPS_ALONE else f"group.{name}", value, source
    )


def _entry(
    key: ConfigKey, name: str, layers: list[Layer], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    """The description of a setting; `layers` go from the strongest to the built-in default."""
    value, source = layers[0]
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=source,
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
        synonyms=_synonyms(key, layers) if request.include_synonyms else [],
    )


def _synonyms(key: ConfigKey, layers: list[tuple[str, int]]) -> list[DescribeConfigsSynonym]:
    return [
        DescribeConfigsSynonym(key.name if source == SOURCE_TOPIC else key.node_name, value, source)
        for value, source in layers
        # Kafka's brokers have no setting for some defaults of topics, so these have no name to be listed by.
        if source != SOURCE_DEFAULT or key.name not in UNNAMED_DEFAULTS
    ]


_Describe = Callable[
    [DescribeConfigsResource, DescribeConfigsRequest, RequestContext[AdminParts]], list[DescribeConfigsResourceResult]
]
_DESCRIBERS: Final[Mapping[int, _Describe]] = {
    TOPIC: _describe_topic,
    BROKER: _describe_node,
    LOGGER: _describe_loggers,
    METRICS: _describe_metrics,
    GROUP: _describe_group,
}
