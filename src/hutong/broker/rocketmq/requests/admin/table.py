"""The table of the administrators' requests. Codes that change a node's settings or files have no handler at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.requests.admin import (
    r012_messages,
    r017_topics,
    r021_topic_configs,
    r026_node,
    r200_groups,
    r202_topic_stats,
    r203_connections,
    r208_consume_stats,
    r222_reset_offsets,
)
from hutong.wire.rocketmq.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.remoting.channels.answers import Answer

ADMIN_HANDLERS: Final[Mapping[RequestCode, Callable[[RocketContext], Answer]]] = {
    RequestCode.QUERY_MESSAGE: r012_messages.handle_query,
    RequestCode.VIEW_MESSAGE_BY_ID: r012_messages.handle_view,
    RequestCode.UPDATE_AND_CREATE_TOPIC: r017_topics.handle_put,
    RequestCode.DELETE_TOPIC_IN_BROKER: r017_topics.handle_delete,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: r017_topics.handle_forget,
    RequestCode.GET_ALL_TOPIC_CONFIG: r021_topic_configs.handle_all,
    RequestCode.GET_TOPIC_CONFIG: r021_topic_configs.handle_one,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: r021_topic_configs.handle_names,
    RequestCode.GET_TOPICS_BY_CLUSTER: r021_topic_configs.handle_names,
    RequestCode.GET_BROKER_CONFIG: r026_node.handle_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: r026_node.handle_runtime,
    RequestCode.GET_BROKER_CLUSTER_INFO: r026_node.handle_cluster,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: r200_groups.handle_put,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: r200_groups.handle_all,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: r200_groups.handle_one,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: r200_groups.handle_delete,
    RequestCode.GET_TOPIC_STATS_INFO: r202_topic_stats.handle,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: r203_connections.handle_consumers,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: r203_connections.handle_producers,
    RequestCode.GET_ALL_PRODUCER_INFO: r203_connections.handle_all_producers,
    RequestCode.GET_CONSUMER_RUNNING_INFO: r203_connections.handle_running,
    RequestCode.GET_CONSUME_STATS: r208_consume_stats.handle_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: r208_consume_stats.handle_readers,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: r222_reset_offsets.handle,
}
