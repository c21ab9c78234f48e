"""Kafka's APIs, one file each, named by key: a function from (request, context) to a response.

A handler that must wait returns a `Later`. Handlers never see a connection. `dispatch` finds them here by `HANDLERS`.
"""

from collections.abc import Callable
from typing import Any, Final

from hutong.broker.kafka import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k37_create_partitions,
    k42_delete_groups,
    k44_incremental_alter_configs,
    k47_offset_delete,
    k60_describe_cluster,
    k75_describe_topic_partitions,
)

HANDLERS: Final[dict[int, Callable[[Any, Any], Any]]] = {
    module.API_KEY: module.handle
    for module in (
        k00_produce,
        k01_fetch,
        k02_list_offsets,
        k03_metadata,
        k08_offset_commit,
        k09_offset_fetch,
        k10_find_coordinator,
        k11_join_group,
        k12_heartbeat,
        k13_leave_group,
        k14_sync_group,
        k15_describe_groups,
        k16_list_groups,
        k18_api_versions,
        k19_create_topics,
        k20_delete_topics,
        k21_delete_records,
        k22_init_producer_id,
        k23_offset_for_leader_epoch,
        k32_describe_configs,
        k37_create_partitions,
        k42_delete_groups,
        k44_incremental_alter_configs,
        k47_offset_delete,
        k60_describe_cluster,
        k75_describe_topic_partitions,
    )
}
