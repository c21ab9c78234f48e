"""Requests that are lists of questions: handled in parts, with the answers that the whole would have."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.apis import BROKER_APIS
from hutong.broker.dispatch.request_parts import elements_in, has_many, parts_of
from hutong.broker.kafka import HANDLERS
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

COUNT = 201
NAMES = [f"topic-number-{number}" for number in range(COUNT)]
TOPIC = 2


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as connected:
        yield connected


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """Elements of each call of a handler, by API; calls do not share a loop iteration if they are answered later."""
    counts: dict[int, list[int]] = {}
    found: dict[int, Any] = {}

    def handler_of(handlers: Any, api_key: int) -> Any:
        handle = found.setdefault(api_key, real(handlers, api_key))

        def counted(request: Any, context: Any) -> Any:
            counts.setdefault(api_key, []).append(elements_in(request))
            return handle(request, context)

        return counted

    real = type(HANDLERS).__getitem__
    monkeypatch.setattr(type(HANDLERS), "get", lambda handlers, api_key: handler_of(handlers, api_key))
    return counts


def resources(*names: str) -> list[AlterConfigsResource]:
    return [AlterConfigsResource(TOPIC, name, [AlterableConfig("retention.ms", 0, "1000")]) for name in names]


async def test_topics_are_made_altered_described_and_deleted(client: WireClient, handled: dict[int, list[int]]) -> None:
    twice = [CreatableTopic(name, 1, 1) for name in (*NAMES, NAMES[0])]
    made = await client.ask(CreateTopicsRequest(twice, 30_000), 7)
    codes = {topic.name: topic.error_code for topic in made.topics}
    assert codes == dict.fromkeys(NAMES, 0) | {NAMES[0]: ErrorCode.INVALID_REQUEST}
    altered = await client.ask(IncrementalAlterConfigsRequest(resources(*NAMES, NAMES[-1])), 1)
    refused = [one.resource_name for one in altered.responses if one.error_code]
    assert refused == [NAMES[0], NAMES[-1], NAMES[-1]], "the first is not there, the last is named twice"
    asked = [DescribeConfigsResource(TOPIC, name, ["retention.ms"]) for name in NAMES]
    described = await client.ask(DescribeConfigsRequest(asked), 4)
    values = [one.configs[0].value if one.configs else None for one in described.results]
    assert values == [None, *["1000"] * (COUNT - 2), str(7 * 24 * 3_600_000)]
    deleted = await client.ask(DeleteTopicsRequest([DeleteTopicState(name) for name in NAMES], [], 30_000), 6)
    assert [one.error_code for one in deleted.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        *[ErrorCode.NONE] * (COUNT - 1),
    ]
    for api_key, counts in handled.items():
        division = BROKER_APIS[api_key].division
        assert division
        assert max(counts) <= division.size + 1, "all of one name are in one part"
        assert sum(counts) >= COUNT
    assert handled.keys() == {19, 44, 32, 20}


async def test_groups_are_described_and_each_is_deleted_once(client: WireClient, handled: dict[int, list[int]]) -> None:
    names = [f"group-{number}" for number in range(3 * COUNT)]
    described = await client.ask(DescribeGroupsRequest(groups=names), 6)
    assert [group.group_id for group in described.groups] == names
    deleted = await client.ask(DeleteGroupsRequest([*names, *names]), 2)
    assert [result.group_id for result in deleted.results] == names
    assert max(handled[15]) == 200


@pytest.mark.parametrize("api_key", [key for key, api in BROKER_APIS.items() if api.division])
def test_a_division_names_fields_of_its_api(api_key: int) -> None:
    api, division = APIS[api_key], BROKER_APIS[api_key].division
    assert division
    request = api.request()
    assert all(getattr(request, field) == [] for field in division.questions)
    assert getattr(api.response(), division.answers) == []
    assert not has_many(request)
    assert parts_of(request, api.versions[0]) == [request]
