"""Share groups and streams groups of all nodes: the client library of the console has no request for them.

Strategy: this node's broker knows its own, and the others are asked as nodes ask each other for anything of Kafka's
protocol. That is with the rights of the cluster, so the caller checks those of the user.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.coordinators.other_nodes import ask_kafka
from hutong.broker.kafka.k16_list_groups import all_groups
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import settle_future
from hutong.groups.directory import GroupKind
from hutong.wire.kafka.apis.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.broker import Broker

KINDS: Final = (GroupKind.SHARE.value, GroupKind.STREAMS.value)
_VERSION: Final = 5  # the first with types of groups


async def other_groups(broker: Broker, nodes: Sequence[int]) -> tuple[list[dict[str, Any]], list[str]]:
    """The groups of these nodes, and a sentence for each node that has not told."""
    if broker.cluster.is_alone:
        return _rows([group for group in all_groups(broker) if group.group_type in KINDS]), []
    told = await asyncio.gather(*(_listed(broker, node) for node in nodes), return_exceptions=True)
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for node, outcome in zip(nodes, told, strict=True):
        if isinstance(outcome, HutongError):
            problems.append(f"node {node} has not told its share and streams groups: {outcome}")
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            rows += _rows(outcome)
    return rows, problems


async def _listed(broker: Broker, node: int) -> list[ListedGroup]:
    told: asyncio.Future[ListGroupsResponse] = asyncio.get_running_loop().create_future()
    request = ListGroupsRequest(types_filter=[*KINDS])
    ask_kafka(broker.cluster, node, request, _VERSION, partial(settle_future, told))
    response = await told
    if response.error_code != ErrorCode.NONE:
        raise Refused(response.error_code)
    return response.groups


def _rows(groups: list[ListedGroup]) -> list[dict[str, Any]]:
    return [
        {"name": group.group_id, "state": group.group_state.lower(), "type": group.group_type, "is_simple": False}
        for group in groups
    ]
