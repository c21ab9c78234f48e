"""Requests that one node alone may answer, the coordinator of their group or transaction.

Strategy: among several nodes the handler of such an API is wrapped. A request for a key that another node coordinates
is refused as a whole with NOT_COORDINATOR, by which clients look for the coordinator again; while there is none, with
COORDINATOR_NOT_AVAILABLE; while this node is to be it and its coordinator is not loaded, with
COORDINATOR_LOAD_IN_PROGRESS. All keys of one kind have one coordinator, so a request with many is refused for the
first. As in Kafka a list of all groups or transactions is empty on a node that coordinates none.

Knows nothing of what the coordinators do. A node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.dispatch.whole_refusals import refused_whole
from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.kafka import Handler

Keys = Callable[[Any], Iterable[str | None]]


def _group_id(request: Any) -> Iterable[str]:
    return (request.group_id,)


def _transactional_id(request: Any) -> Iterable[str | None]:
    return (request.transactional_id,)


def _of_offset_fetch(request: Any) -> Iterable[str]:
    return [group.group_id for group in request.groups] or (request.group_id,)


def _of_added_partitions(request: Any) -> Iterable[str]:
    transactions = [transaction.transactional_id for transaction in request.transactions]
    return transactions or (request.v3_and_below_transactional_id,)


_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_LISTS: Final = frozenset((16, 66))
_GROUP, _TRANSACTION = CoordinationKind.GROUP, CoordinationKind.TRANSACTION
COORDINATED: Final[Mapping[int, tuple[CoordinationKind, Keys]]] = {
    8: (_GROUP, _group_id),  # OffsetCommit
    9: (_GROUP, _of_offset_fetch),
    11: (_GROUP, _group_id),  # JoinGroup
    12: (_GROUP, _group_id),  # Heartbeat
    13: (_GROUP, _group_id),  # LeaveGroup
    14: (_GROUP, _group_id),  # SyncGroup
    15: (_GROUP, lambda request: request.groups),  # DescribeGroups
    16: (_GROUP, lambda _request: ()),  # ListGroups
    22: (_TRANSACTION, _transactional_id),  # InitProducerId: without a transactional id any node has one
    24: (_TRANSACTION, _of_added_partitions),
    25: (_TRANSACTION, _transactional_id),  # AddOffsetsToTxn
    26: (_TRANSACTION, _transactional_id),  # EndTxn
    28: (_GROUP, _group_id),  # TxnOffsetCommit
    42: (_GROUP, lambda request: request.groups_names),  # DeleteGroups
    47: (_GROUP, _group_id),  # OffsetDelete
    65: (_TRANSACTION, lambda request: request.transactional_ids),  # DescribeTransactions
    66: (_TRANSACTION, lambda _request: ()),  # ListTransactions
    68: (_GROUP, _group_id),  # ConsumerGroupHeartbeat
    69: (_GROUP, lambda request: request.group_ids),  # ConsumerGroupDescribe
    76: (_GROUP, _group_id),  # ShareGroupHeartbeat
    77: (_GROUP, lambda request: request.group_ids),  # ShareGroupDescribe
    90: (_GROUP, lambda request: [group.group_id for group in request.groups]),  # DescribeShareGroupOffsets
    91: (_GROUP, _group_id),  # AlterShareGroupOffsets
    92: (_GROUP, _group_id),  # DeleteShareGroupOffsets
}


def coordinated(api_key: int, handle: Handler, broker: Broker) -> Handler:
    """The handler itself, or one that refuses what another node coordinates."""
    kind_and_keys = COORDINATED.get(api_key)
    if kind_and_keys is None:
        return handle
    kind, keys_of = kind_and_keys
    cluster, node, serving = broker.cluster, broker.identity.node_id, broker.coordination
    code_of = attrgetter("groups" if kind is _GROUP else "transactions")

    def checked(request: Any, context: RequestContext[Any]) -> Any:
        is_coordinated = api_key in _LISTS
        for key in keys_of(request):
            if key is None:
                continue
            is_coordinated = True
            if (coordinator := cluster.coordinator_of(kind, key)) != node:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE if coordinator < 0 else ErrorCode.NOT_COORDINATOR
                return refused_whole(api_key, request, code)
        code = code_of(serving)
        # A list is complete without a node that is not about to coordinate anything.
        if is_coordinated and code is not ErrorCode.NONE and (api_key not in _LISTS or code is _LOADING):
            return refused_whole(api_key, request, _LOADING)
        return handle(request, context)

    return checked
