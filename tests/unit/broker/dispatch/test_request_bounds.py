"""A request may name only so many things, however small they are; what clients may ask for goes through."""

import re

import pytest

from hutong.broker.apis import (
    BROKER_APIS,
    COSTLY_ELEMENTS_MAX,
    ELEMENTS_MAX,
    LIST_ELEMENTS_MAX,
    PARTITION_ELEMENTS_MAX,
)
from hutong.broker.dispatch.request_parts import is_divisible
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.codec import codecs


def decoded(message: object, api_key: int, api_version: int) -> object:
    decode = codecs.request_decoder(api_key, api_version, BROKER_APIS[api_key].elements_max)
    return decode(b"".join(codecs.encode_request(message, api_version)), 0)


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


def test_a_request_has_the_bound_of_its_kind() -> None:
    for key, api in BROKER_APIS.items():
        if key in (2, 3, 8, 9):
            assert api.elements_max == PARTITION_ELEMENTS_MAX
        # A member of a streams group may have to name all of its tasks.
        elif key in (1, 88) or (is_divisible(key) and key != 0):
            assert api.elements_max == LIST_ELEMENTS_MAX
        else:
            assert api.elements_max in (ELEMENTS_MAX, COSTLY_ELEMENTS_MAX)


def test_an_answer_has_no_bound() -> None:
    answer = MetadataResponse(topics=[MetadataResponseTopic(0)] * (codecs.ELEMENTS_MAX + 1))
    found = codecs.decode_response(3, 9, b"".join(codecs.encode_response(answer, 9)))
    assert len(found.topics) == codecs.ELEMENTS_MAX + 1


def test_requests_whose_elements_cost_more_may_have_fewer() -> None:
    costly = {key for key, api in BROKER_APIS.items() if api.elements_max == COSTLY_ELEMENTS_MAX}
    assert costly == {51, 55, 61, 90, 91}
