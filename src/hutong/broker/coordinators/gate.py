"""Requests to a coordinator that is on another node, or that is being loaded: the answers that send a client on.

Strategy: every handler of such a request is wrapped where the node is one of several. While its coordinator serves
(`Coordination`), the handler is called. Else each group, transaction or partition of the request is answered with
NOT_COORDINATOR, at which clients look for the coordinator, or COORDINATOR_LOAD_IN_PROGRESS, at which they wait. As in
Kafka a list of all groups or transactions is empty on a node that coordinates none.

A node alone imports this never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hutong.wire.kafka.apis.k08_offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from hutong.wire.kafka.apis.k11_join_group import JoinGroupResponse
from hutong.wire.kafka.apis.k15_describe_groups import DescribedGroup, DescribeGroupsResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdResponse
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from hutong.wire.kafka.apis.k28_txn_offset_commit import TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic
from hutong.wire.kafka.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsResponse
from hutong.wire.kafka.apis.k65_describe_transactions import DescribeTransactionsResponse, TransactionState
from hutong.wire.kafka.apis.k69_consumer_group_describe import ConsumerGroupDescribeResponse
from hutong.wire.kafka.apis.k69_consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from hutong.wire.kafka.apis.k77_share_group_describe import DescribedGroup as DescribedShareGroup
from hutong.wire.kafka.apis.k77_share_group_describe import ShareGroupDescribeResponse
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

Handle = Callable[[Any, Any], Any]
Refuse = Callable[[Any, int, ErrorCode], Any]  # (request, API version, code) to the response, None to ask the handler
_GROUP_ERROR_FROM: Final = 2  # of OffsetFetch
_MANY_GROUPS_FROM: Final = 8
_NULL_PROTOCOL_NAME_FROM: Final = 7  # of JoinGroup
_MANY_TRANSACTIONS_FROM: Final = 4  # of AddPartitionsToTxn


def gated(api_key: int, handle: Handle) -> Handle:
    """Wrap the handler of an API that a coordinator serves; any other is returned as it is."""
    found = REFUSALS.get(api_key)
    if found is None:
        return handle
    kind, refuse = found

    def gate(request: Any, context: Any) -> Any:
        code = getattr(context.broker.coordination, kind)
        answer = None if code is ErrorCode.NONE else refuse(request, context.api_version, code)
        return handle(request, context) if answer is None else answer

    return gate


def _whole(api_key: int) -> Refuse:
    """A response that has one error for the whole request."""

    def refuse(_request: Any, _version: int, code: ErrorCode) -> Any:
        return APIS[api_key].response(error_code=code)

    return refuse


def _listing(api_key: int) -> Refuse:
    """A list of everything here: empty, unless it is not known yet what there is."""
    refuse = _whole(api_key)

    def listing(request: Any, version: int, code: ErrorCode) -> Any:
        return refuse(request, version, code) if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else None

    return listing


def _offset_commit(request: Any, _version: int, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                asked.name,
                asked.topic_id,
                [PartitionErrorCode(each.partition_index, code) for each in asked.partitions],
            )
            for asked in request.topics
        ]
    )


def _offset_fetch(request: Any, version: int, code: ErrorCode) -> OffsetFetchResponse:
    if version >= _MANY_GROUPS_FROM:
        groups = [OffsetFetchResponseGroup(asked.group_id, error_code=code) for asked in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= _GROUP_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name, [OffsetFetchResponsePartition(index, -1, -1, "", code) for index in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
    )


def _join(request: Any, version: int, code: ErrorCode) -> JoinGroupResponse:
    protocol_name = None if version >= _NULL_PROTOCOL_NAME_FROM else ""
    return JoinGroupResponse(error_code=code, protocol_name=protocol_name, member_id=request.member_id)


def _describe_groups(request: Any, _version: int, code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(code, None, group_id) for group_id in request.groups])


def _delete_groups(request: Any, _version: int, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(each, code) for each in dict.fromkeys(request.groups_names)]
    )


def _describe_consumers(request: Any, _version: int, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    groups = [DescribedConsumerGroup(code, None, group_id) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe_sharers(request: Any, _version: int, code: ErrorCode) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[DescribedShareGroup(code, None, each) for each in request.group_ids])


def _describe_share_offsets(request: Any, _version: int, code: ErrorCode) -> DescribeShareGroupOffsetsResponse:
    groups = [DescribeShareGroupOffsetsResponseGroup(asked.group_id, [], code) for asked in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _init(request: Any, _version: int, code: ErrorCode) -> InitProducerIdResponse | None:
    # Every node gives producer ids; transactional ids have a coordinator.
    if request.transactional_id is None:
        return None
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _add_partitions(request: Any, version: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    if version < _MANY_TRANSACTIONS_FROM:
        results = _partition_results(request.v3_and_below_topics, code)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(asked.transactional_id, _partition_results(asked.topics, code))
            for asked in request.transactions
        ]
    )


def _partition_results(topics: Any, code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
        )
        for topic in topics
    ]


def _transactional_commit(request: Any, _version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                asked.name, [PartitionErrorCode(each.partition_index, code) for each in asked.partitions]
            )
            for asked in request.topics
        ]
    )


def _describe_transactions(request: Any, _version: int, code: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(code, name) for name in request.transactional_ids]
    )


_GROUPS, _TRANSACTIONS, _SHARES = "groups", "transactions", "share_groups"
REFUSALS: Final[Mapping[int, tuple[str, Refuse]]] = {
    8: (_GROUPS, _offset_commit),
    9: (_GROUPS, _offset_fetch),
    11: (_GROUPS, _join),
    12: (_GROUPS, _whole(12)),
    13: (_GROUPS, _whole(13)),
    14: (_GROUPS, _whole(14)),
    15: (_GROUPS, _describe_groups),
    16: (_GROUPS, _listing(16)),
    22: (_TRANSACTIONS, _init),
    24: (_TRANSACTIONS, _add_partitions),
    25: (_TRANSACTIONS, _whole(25)),
    26: (_TRANSACTIONS, _whole(26)),
    28: (_GROUPS, _transactional_commit),
    42: (_GROUPS, _delete_groups),
    47: (_GROUPS, _whole(47)),
    65: (_TRANSACTIONS, _describe_transactions),
    66: (_TRANSACTIONS, _listing(66)),
    68: (_GROUPS, _whole(68)),
    69: (_GROUPS, _describe_consumers),
    76: (_SHARES, _whole(76)),
    77: (_SHARES, _describe_sharers),
    78: (_SHARES, _whole(78)),
    79: (_SHARES, _whole(79)),
    90: (_SHARES, _describe_share_offsets),
    91: (_SHARES, _whole(91)),
    92: (_SHARES, _whole(92)),
}
