"""Requests that one node alone may answer, the coordinator of their group or transaction.

Strategy: among several nodes the handler of such an API is wrapped. A request for a key that another node coordinates
is refused as a whole with NOT_COORDINATOR, by which clients look for the coordinator again; while there is none, with
COORDINATOR_NOT_AVAILABLE; while this node is to be it and its coordinator is not loaded, with
COORDINATOR_LOAD_IN_PROGRESS. What a handler gets as its broker has the coordinators of the key's shard. A request with
keys of several shards is answered part by part. As in Kafka a list of all groups or transactions has those that this
node coordinates.

Knows nothing of what the coordinators do. A node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hutong.broker.dispatch.whole_refusals import refused_whole
from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.handling.context import RequestContext
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.coordinators.broker_shard import BrokerShard
    from hutong.broker.kafka import Handler

Keys = Callable[[Any], Iterable[str | None]]
Place: TypeAlias = "tuple[Broker | BrokerShard | None, ErrorCode]"
"""The coordinators of a key, or why there are none."""


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
_LISTS: Final[Mapping[int, str]] = {16: "groups", 66: "transaction_states"}  # the field that has the list
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
    88: (_GROUP, _group_id),  # StreamsGroupHeartbeat
    89: (_GROUP, lambda request: request.group_ids),  # StreamsGroupDescribe
    90: (_GROUP, lambda request: [group.group_id for group in request.groups]),  # DescribeShareGroupOffsets
    91: (_GROUP, _group_id),  # AlterShareGroupOffsets
    92: (_GROUP, _group_id),  # DeleteShareGroupOffsets
}


def coordinated(api_key: int, handle: Handler, broker: Broker) -> Handler:
    """The handler itself, or one that refuses what another node coordinates."""
    kind_and_keys = COORDINATED.get(api_key)
    if kind_and_keys is None:
        return handle
    gate = _Gate(api_key, *kind_and_keys, handle, broker)
    return gate.listed if api_key in _LISTS else gate.answered


class _Gate:
    """The way to the handler of one API."""

    def __init__(self, api_key: int, kind: CoordinationKind, keys_of: Keys, handle: Handler, broker: Broker) -> None:
        self._api_key = api_key
        self._kind = kind
        self._keys_of = keys_of
        self._handle = handle
        self._broker = broker
        self._node = broker.identity.node_id
        self._code_of = attrgetter("groups" if kind is _GROUP else "transactions")

    def answered(self, request: Any, context: RequestContext[Any]) -> Any:
        """Answer a request by the coordinators of its keys."""
        places = [self._place_of(key) for key in self._keys_of(request) if key is not None]
        if not places:
            return self._handle(request, context)
        first = places[0]
        if all(place == first for place in places):
            return self._at(first, request, context)
        from hutong.broker.dispatch.split_keys import split  # late: few requests need it

        return split(self._api_key, request, places, lambda place, part: self._at(place, part, context))

    def listed(self, request: Any, context: RequestContext[Any]) -> Any:
        """Answer with the lists of all coordinators on this node. It is complete once all of them are loaded."""
        shards = self._broker.shards
        if any(self._code_of(shard.coordination) is _LOADING for shard in shards):
            return refused_whole(self._api_key, request, _LOADING)
        whole, *others = [self._handle(request, _with(shard, context)) for shard in shards]
        for other in others:
            getattr(whole, _LISTS[self._api_key]).extend(getattr(other, _LISTS[self._api_key]))
        return whole

    def _place_of(self, key: str) -> Place:
        coordinator = self._broker.cluster.coordinator_of(self._kind, key)
        if coordinator != self._node:
            return None, ErrorCode.COORDINATOR_NOT_AVAILABLE if coordinator < 0 else ErrorCode.NOT_COORDINATOR
        shard = self._broker.shard_of(key)
        code = self._code_of(shard.coordination)
        return (shard, code) if code is ErrorCode.NONE else (None, _LOADING)

    def _at(self, place: Place, request: Any, context: RequestContext[Any]) -> Any:
        shard, code = place
        return (
            refused_whole(self._api_key, request, code)
            if shard is None
            else self._handle(request, _with(shard, context))
        )


def _with(shard: Broker | BrokerShard, context: RequestContext[Any]) -> RequestContext[Any]:
    """The context for a handler of this shard."""
    if shard is context.broker:
        return context
    return RequestContext(context.api_version, context.client_id, context.session, shard)
