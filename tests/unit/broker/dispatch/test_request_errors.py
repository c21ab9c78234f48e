"""The errors of an answer of any API, and their counters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.dispatch.request_errors import RequestErrors, errors_in
from hutong.broker.kafka import HANDLERS
from hutong.wire.kafka.apis.k00_produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from hutong.wire.kafka.apis.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatResponse
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import Array, Struct, rows_of


def test_errors_of_an_answer_as_a_whole() -> None:
    look = errors_in(12)
    assert look(HeartbeatResponse()) is None
    assert look(HeartbeatResponse(error_code=25)) == {25}


def test_errors_of_partitions_and_of_the_whole_are_told_together() -> None:
    look = errors_in(1)
    topics = [
        FetchableTopicResponse("a", partitions=[PartitionData(0), PartitionData(1, error_code=3)]),
        FetchableTopicResponse("b", partitions=[PartitionData(0, error_code=1), PartitionData(1, error_code=3)]),
    ]
    assert look(FetchResponse(responses=topics)) == {1, 3}
    assert look(FetchResponse(error_code=70, responses=topics)) == {1, 3, 70}
    assert look(FetchResponse(responses=[])) is None


@given(st.lists(st.lists(st.sampled_from([0, 0, 6, 87]))))
def test_every_code_is_found_once(codes: list[list[int]]) -> None:
    topics = [
        TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(0, error_code=code) for code in each])
        for each in codes
    ]
    expected = {code for each in codes for code in each} - {0}
    assert (errors_in(0)(ProduceResponse(topics)) or set()) == expected


def with_errors(table: type[Any]) -> tuple[Any, set[int]]:
    """An answer with a different code in each of its error fields, and these codes."""
    answer, codes, next_code = table(), set[int](), iter(range(1, 100))

    def fill(filled: Any) -> None:
        for name, row in rows_of(type(filled)):
            if name.endswith("error_code") and name != "topic_config_error_code":
                code = next(next_code)
                setattr(filled, name, code)
                codes.add(code)
            elif isinstance(row.wire_type, Array) and isinstance(row.wire_type.element, Struct):
                part = row.wire_type.element.table()
                if not type(part).__dataclass_params__.frozen:
                    fill(part)
                setattr(filled, name, [part])

    fill(answer)
    return answer, codes


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_every_error_of_every_api_is_seen(api_key: int) -> None:
    table = APIS[api_key].response
    answer, codes = with_errors(table)
    look = errors_in(api_key)
    assert look(table()) is None
    assert (look(answer) or set()) == codes


def test_an_answer_counts_once_for_each_of_its_errors() -> None:
    errors = RequestErrors()
    errors.note(1, {1, 3})
    errors.note(1, {3}, answers=2)
    errors.note(0, {7})
    assert errors.totals == {(1, 1): 1, (1, 3): 3, (0, 7): 1}
    assert errors.failed_total == {1: 3, 0: 1}
