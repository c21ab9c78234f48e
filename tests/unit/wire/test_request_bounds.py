"""A request may name only so many things, however small they are; what clients may ask for goes through."""

import re

import pytest

from hutong.broker.dispatch.request_parts import is_divisible
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka import codecs
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.request_bounds import (
    COSTLY_ELEMENTS_MAX,
    ELEMENTS_MAX,
    LIST_ELEMENTS_MAX,
    PARTITION_ELEMENTS_MAX,
    elements_max,
)


def decoded(message: object, api_key: int, api_version: int) -> object:
    return codecs.decode_request(api_key, api_version, b"".join(codecs.encode_request(message, api_version)))


@pytest.mark.parametrize("api_version", [0, 5])
def test_as_many_groups_as_may_be_and_not_one_more(api_version: int) -> None:
    request = DescribeGroupsRequest(groups=["g"] * LIST_ELEMENTS_MAX)
    assert decoded(request, 15, api_version) == request
    request.groups.append("g")
    with pytest.raises(ProtocolError, match=re.escape("DescribeGroupsRequest.groups has too many elements")):
        decoded(request, 15, api_version)


def test_a_request_about_every_topic_that_a_node_can_have() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(100_000)])
    found = decoded(request, 3, 9)
    assert isinstance(found, MetadataRequest)
    assert found.topics == request.topics


def test_elements_of_nested_arrays_count_together() -> None:
    partitions = [FetchPartition(number) for number in range(1000)]
    topics = [FetchTopic(topic="t", partitions=partitions)] * (LIST_ELEMENTS_MAX // 1000 + 1)
    with pytest.raises(ProtocolError, match="too many elements"):
        decoded(FetchRequest(topics=topics), 1, 11)
    assert decoded(FetchRequest(topics=topics[2:]), 1, 11)


def test_every_request_has_a_bound_and_no_answer_has() -> None:
    for api in APIS.values():
        bound = elements_max(api.request.__name__)
        if api.key in (2, 3, 8, 9):
            assert bound == PARTITION_ELEMENTS_MAX
        else:
            is_list = api.key == 1 or (is_divisible(api.key) and api.key != 0)
            others = (ELEMENTS_MAX, COSTLY_ELEMENTS_MAX)
            assert bound == LIST_ELEMENTS_MAX if is_list else bound in others
    assert elements_max(MetadataResponse.__name__) is None


def test_requests_whose_elements_cost_more_may_have_fewer() -> None:
    costly = {api.key for api in APIS.values() if elements_max(api.request.__name__) == COSTLY_ELEMENTS_MAX}
    assert costly == {51, 55, 61, 90, 91}
