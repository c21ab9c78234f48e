"""DescribeConfigs (key 32, versions 1-4): the settings of topics, groups and this node (KIP-133, KIP-226, KIP-569).

Every setting that a topic can have is listed with its source: the topic's own, the node's, or the built-in default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hutong.broker.context import RequestContext
from hutong.broker.topic_config import KEYS, UNNAMED_DEFAULTS, ConfigKey, ConfigType
from hutong.broker.topics import check_topic_name
from hutong.foundation.errors import Refused
from hutong.groups.configs import GroupConfigKey
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
RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_GROUP: Final = 32
_SOURCE_TOPIC: Final = 1
_SOURCE_NODE: Final = 4  # STATIC_BROKER_CONFIG
_SOURCE_DEFAULT: Final = 5
_SOURCE_GROUP: Final = 8  # DYNAMIC_GROUP_CONFIG
_GROUPS_ALONE: Final = frozenset(("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"))


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
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
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> list[DescribeConfigsResourceResult]:
    if asked.resource_type == RESOURCE_TOPIC:
        return _describe_topic(asked, request, context)
    if asked.resource_type == RESOURCE_BROKER:
        return _describe_node(asked, request, context)
    if asked.resource_type == RESOURCE_GROUP:
        return _describe_group(asked, request, context)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Resource type {asked.resource_type} has no settings here.")


def _wanted(names: list[str] | None, known: Iterable[str]) -> list[str]:
    """The known names that were asked for; null and an empty list both ask for all of them."""
    return [name for name in known if not names or name in names]


def _describe_topic(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> list[DescribeConfigsResourceResult]:
    check_topic_name(asked.resource_name)
    topics = context.broker.topics
    topic = topics.get(asked.resource_name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    return [
        _entry(KEYS[name], _layers(KEYS[name], topic.overrides, topics.defaults), request)
        for name in _wanted(asked.configuration_keys, KEYS)
    ]


def _describe_node(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> list[DescribeConfigsResourceResult]:
    broker = context.broker
    if asked.resource_name not in ("", str(broker.identity.node_id)):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is node {broker.identity.node_id}, not {asked.resource_name}.")
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=broker.node_config[name],
            read_only=True,
            config_source=_SOURCE_NODE,
            config_type=ConfigType.STRING,
        )
        for name in _wanted(asked.configuration_keys, broker.node_config)
    ]


def _describe_group(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> list[DescribeConfigsResourceResult]:
    """A group need not exist to be asked about: what it would go by is the answer."""
    configs, group_id = context.broker.group_configs, asked.resource_name
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    overrides = configs.of(group_id)
    results = []
    for name in _wanted(asked.configuration_keys, configs.keys):
        key = configs.keys[name]
        layers = [(key.default, _SOURCE_DEFAULT)]
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


def _layers(key: ConfigKey, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> list[tuple[str, int]]:
    """(value, source) from the strongest to the built-in default."""
    layers = [(key.default, _SOURCE_DEFAULT)]
    if key.name in defaults:
        layers.insert(0, (defaults[key.name], _SOURCE_NODE))
    if key.name in overrides:
        layers.insert(0, (overrides[key.name], _SOURCE_TOPIC))
    return layers


def _entry(
    key: ConfigKey, layers: list[tuple[str, int]], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    value, source = layers[0]
    return DescribeConfigsResourceResult(
        name=key.name,
        value=value,
        config_source=source,
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
        synonyms=_synonyms(key, layers) if request.include_synonyms else [],
    )


def _synonyms(key: ConfigKey, layers: list[tuple[str, int]]) -> list[DescribeConfigsSynonym]:
    return [_synonym(key, *layer) for layer in layers if _is_told(key, layer)]


def _synonym(key: ConfigKey, value: str, source: int) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(key.name if source == _SOURCE_TOPIC else key.node_name, value, source)


def _is_told(key: ConfigKey, layer: tuple[str, int]) -> bool:
    return layer[1] != _SOURCE_DEFAULT or key.name not in UNNAMED_DEFAULTS
