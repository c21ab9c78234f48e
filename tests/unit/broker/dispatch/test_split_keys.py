"""Requests whose keys have several coordinators: split into parts, and answers joined in the order of the keys."""

from typing import Any

import pytest

from hutong.broker.dispatch.split_keys import split
from hutong.broker.dispatch.whole_refusals import refused_whole
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from hutong.wire.kafka.apis.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from hutong.wire.kafka.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from hutong.wire.kafka.error_codes import ErrorCode

HERE, THERE, ELSEWHERE = "here", "there", "elsewhere"
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def described(place: str, request: DescribeGroupsRequest) -> Any:
    if place == ELSEWHERE:
        return refused_whole(15, request, NOT_COORDINATOR)
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, group_state=place) for name in request.groups])


def test_results_come_in_the_order_of_the_keys_whatever_answers_first() -> None:
    places = [THERE, HERE, ELSEWHERE, THERE]
    asked: list[tuple[str, list[str]]] = []

    def answer(place: str, request: DescribeGroupsRequest) -> Any:
        asked.append((place, request.groups))
        return described(place, request)

    request = DescribeGroupsRequest(["d", "b", "c", "a"])
    whole = split(15, request, places, answer)
    assert asked == [(THERE, ["d", "a"]), (HERE, ["b"]), (ELSEWHERE, ["c"])]
    assert [(each.group_id, each.group_state, each.error_code) for each in whole.groups] == [
        ("d", THERE, 0),
        ("b", HERE, 0),
        ("c", "", NOT_COORDINATOR),
        ("a", THERE, 0),
    ]
    assert request.groups == ["d", "b", "c", "a"], "the request itself is left alone"


def test_a_key_that_comes_twice_has_two_results() -> None:
    whole = split(15, DescribeGroupsRequest(["a", "b", "a"]), [HERE, THERE, HERE], described)
    assert [each.group_id for each in whole.groups] in (["a", "a", "b"], ["b", "a", "a"])


@pytest.mark.parametrize("late", [(0,), (1,), (0, 1), (1, 0)])
def test_parts_may_be_answered_later_in_any_order(late: tuple[int, ...]) -> None:
    waiting: list[tuple[Pending[Any], Any]] = []

    def answer(place: str, request: DeleteGroupsRequest) -> Any:
        result = DeleteGroupsResponse(results=[DeletableGroupResult(name) for name in request.groups_names])
        pending: Pending[Any] = Pending()
        waiting.append((pending, result))
        if (0 if place == HERE else 1) not in late:
            pending.complete(result)
        return pending

    whole: list[Any] = []
    split(42, DeleteGroupsRequest(["a", "b", "c"]), [HERE, THERE, HERE], answer).then(whole.append)
    for at in late:
        assert whole == []
        pending, result = waiting[at]
        pending.complete(result)
    assert [each.group_id for each in whole[0].results] == ["a", "b", "c"]


def test_a_part_that_is_refused_refuses_no_other() -> None:
    transactions = [AddPartitionsToTxnTransaction(name, 1, 0, True, []) for name in ("x", "y")]

    def answer(place: str, request: AddPartitionsToTxnRequest) -> Any:
        if place == ELSEWHERE:
            return refused_whole(24, request, NOT_COORDINATOR)
        return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult("x")])

    whole = split(24, AddPartitionsToTxnRequest(transactions=transactions), [HERE, ELSEWHERE], answer)
    assert whole.error_code == ErrorCode.NONE
    assert [each.transactional_id for each in whole.results_by_transaction] == ["x", "y"]


def test_a_client_that_lacks_a_right_is_refused_as_a_whole() -> None:
    transactions = [AddPartitionsToTxnTransaction(name, 1, 0, True, []) for name in ("x", "y")]
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request = AddPartitionsToTxnRequest(transactions=transactions)
    whole = split(24, request, [HERE, THERE], lambda _place, _part: AddPartitionsToTxnResponse(error_code=denied))
    assert (whole.error_code, whole.results_by_transaction) == (denied, [])


def test_questions_may_be_tables_with_a_key() -> None:
    groups = [OffsetFetchRequestGroup(name) for name in ("a", "b")]

    def answer(_place: str, request: OffsetFetchRequest) -> Any:
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(each.group_id) for each in request.groups])

    whole = split(9, OffsetFetchRequest(groups=groups), [HERE, THERE], answer)
    assert [each.group_id for each in whole.groups] == ["a", "b"]
