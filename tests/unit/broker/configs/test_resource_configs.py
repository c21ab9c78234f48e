"""Settings of every kind of resource: told with their sources, changed while the node runs, kept."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.broker.topics.lifetimes import DATA_GROUPS
from hutong.journal.journal import Journal
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from hutong.wire.kafka.apis.k33_alter_configs import AlterableConfig as WholeConfig
from hutong.wire.kafka.apis.k33_alter_configs import AlterConfigsRequest
from hutong.wire.kafka.apis.k33_alter_configs import AlterConfigsResource as WholeResource
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k74_list_config_resources import ListConfigResourcesRequest
from hutong.wire.kafka.error_codes import ErrorCode

TOPIC, NODE, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MINE = "1"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        yield client


async def change(
    client: WireClient, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    asked = AlterConfigsResource(kind, name, [AlterableConfig(*item) for item in changes])
    answer = await client.ask(IncrementalAlterConfigsRequest([asked], validate_only), 1)
    return int(answer.responses[0].error_code)


async def replace(client: WireClient, kind: int, name: str, validate_only: bool = False, **values: str | None) -> int:
    configs = [WholeConfig(key.replace("_", "."), value) for key, value in values.items()]
    answer = await client.ask(AlterConfigsRequest([WholeResource(kind, name, configs)], validate_only), 2)
    return int(answer.responses[0].error_code)


async def describe(client: WireClient, kind: int, name: str, *keys: str) -> Any:
    """By name: (value, source, read_only, synonyms); or the error code."""
    asked = DescribeConfigsResource(kind, name, list(keys) or None)
    (result,) = (await client.ask(DescribeConfigsRequest([asked], True, True), 4)).results
    if result.error_code:
        return result.error_code
    return {
        config.name: (config.value, config.config_source, config.read_only,
                      [(layer.value, layer.source) for layer in config.synonyms])
        for config in result.configs
    }  # fmt: skip


async def test_the_node_is_set_for_itself_and_for_all_nodes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        assert await change(client, NODE, "", ("log.retention.bytes", SET, "1000")) == 0
        assert await change(client, NODE, MINE, ("log.retention.bytes", SET, "2000")) == 0
        assert await change(client, NODE, MINE, ("message.max.bytes", SET, "5000"), validate_only=True) == 0
    async with running_node(tmp_path) as address, client_of(address) as client:  # it was kept
        layers = [("2000", 2), ("1000", 3), ("-1", 5)]
        topic = await describe(client, TOPIC, "t", "retention.bytes", "max.message.bytes")
        assert topic["retention.bytes"] == ("2000", 2, False, layers)
        assert topic["max.message.bytes"] == ("1048588", 5, False, [("1048588", 5)])
        node = await describe(client, NODE, MINE, "log.retention.bytes")
        assert node == {"log.retention.bytes": ("2000", 2, False, layers)}
        everybody = await describe(client, NODE, "")
        assert everybody == {"log.retention.bytes": ("1000", 3, False, [("1000", 3)])}
        assert await change(client, NODE, MINE, ("log.retention.bytes", DELETE, None)) == 0
        assert (await describe(client, TOPIC, "t"))["retention.bytes"][:2] == ("1000", 3)
        assert await change(client, TOPIC, "t", ("retention.bytes", SET, "7")) == 0
        assert (await describe(client, TOPIC, "t"))["retention.bytes"][:2] == ("7", 1)


async def test_what_is_changed_counts_at_once(client: WireClient) -> None:
    await change(client, NODE, MINE, ("message.max.bytes", SET, "60"))
    refused = await client.produce(batch_of(b"x", timestamp_ms=0))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await replace(client, NODE, MINE) == 0
    assert (await describe(client, TOPIC, "t"))["max.message.bytes"][:2] == ("1048588", 5)


SINGLE_CHANGES: list[tuple[int, str, tuple[str, int, str | None], ErrorCode]] = [
    (NODE, MINE, ("node.id", SET, "5"), ErrorCode.INVALID_REQUEST),
    (NODE, MINE, ("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
    (NODE, MINE, ("log.retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    (NODE, MINE, ("log.retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
    (NODE, MINE, ("leader.replication.throttled.rate", DELETE, None), ErrorCode.NONE),
    (NODE, "2", ("log.retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
    (NODE, "x", ("log.retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
    (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
    (TOPIC, "none", ("retention.ms", SET, "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "t", ("nothing", SET, "5"), ErrorCode.INVALID_CONFIG),
    (TOPIC, "t", ("nothing", DELETE, None), ErrorCode.NONE),
    (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    (TOPIC, "t", ("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
    (TOPIC, "t", ("retention.ms", 9, "5"), ErrorCode.INVALID_REQUEST),
    (TOPIC, "t", ("cleanup.policy", APPEND, "compact"), ErrorCode.NONE),
    (TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact"), ErrorCode.NONE),
    (LOGGER, MINE, ("hutong.nothing", SET, "INFO"), ErrorCode.INVALID_CONFIG),
    (LOGGER, MINE, ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
    (LOGGER, MINE, ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    (LOGGER, MINE, ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
    (LOGGER, "2", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    (METRICS, "", ("interval.ms", SET, "1000"), ErrorCode.INVALID_REQUEST),
    (METRICS, "m", ("nothing", SET, "1000"), ErrorCode.INVALID_REQUEST),
    (METRICS, "m", ("interval.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
    (GROUP, "g", ("nothing", SET, "1"), ErrorCode.INVALID_CONFIG),
    (99, "g", ("nothing", SET, "1"), ErrorCode.INVALID_REQUEST),
]


async def test_single_changes(client: WireClient) -> None:
    for kind, name, item, code in SINGLE_CHANGES:
        for validate_only in (True, False):
            answer = await change(client, kind, name, item, validate_only=validate_only)
            assert answer == code, (kind, name, item)


async def test_a_cleanup_policy_can_be_emptied(client: WireClient) -> None:
    async def policy() -> object:
        return (await describe(client, TOPIC, "t"))["cleanup.policy"][:2]

    assert await change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert await policy() == ("", 1)
    assert await change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact")) == 0
    assert await policy() == ("", 1)
    assert await change(client, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == 0
    assert await policy() == ("compact", 1)
    assert await change(client, TOPIC, "t", ("cleanup.policy", SET, "")) == 0
    assert await policy() == ("", 1)
    assert await replace(client, TOPIC, "t", cleanup_policy="") == 0
    assert await policy() == ("", 1)
    assert await change(client, TOPIC, "t", ("cleanup.policy", DELETE, None)) == 0
    assert await change(client, NODE, MINE, ("log.cleanup.policy", SUBTRACT, "delete")) == 0
    assert await policy() == ("", 2)
    assert await change(client, TOPIC, "t", ("cleanup.policy", APPEND, "delete")) == 0
    assert await policy() == ("delete", 1)
    await client.create("kept", cleanup_policy="")
    assert (await describe(client, TOPIC, "kept"))["cleanup.policy"][:2] == ("", 1)


async def test_the_pause_between_cleanings_can_be_altered_while_the_node_runs(client: WireClient) -> None:
    name = "log.cleaner.backoff.ms"
    assert (await describe(client, NODE, MINE))[name][:3] == ("15000", 5, False)
    assert await change(client, NODE, MINE, (name, SET, "5")) == ErrorCode.INVALID_REQUEST
    assert await change(client, NODE, "", (name, SET, "10")) == 0
    assert (await describe(client, NODE, MINE))[name][:3] == ("10", 3, False)
    assert await change(client, NODE, "", (name, DELETE, None)) == 0
    assert (await describe(client, NODE, MINE))[name][:3] == ("15000", 5, False)


ALTERED = [
    ("log.cleaner.io.max.bytes.per.second", "33554432", "1000.5", "-1"),
    ("log.cleaner.io.max.bytes.per.second", "33554432", "1.7976931348623157E308", "inf"),
    ("log.cleaner.dedupe.buffer.size", "16777216", "65536", "1"),
    ("producer.id.expiration.ms", "86400000", "1000", "0"),
]


@pytest.mark.parametrize(("name", "default", "value", "wrong"), ALTERED)
async def test_settings_of_journals_can_be_altered_while_the_node_runs(
    client: WireClient, monkeypatch: pytest.MonkeyPatch, name: str, default: str, value: str, wrong: str
) -> None:
    followed: list[JournalSettings] = []
    monkeypatch.setattr(Journal, "alter_settings", lambda _journal, settings: followed.append(settings))
    assert (await describe(client, NODE, MINE))[name][:3] == (default, 5, False)
    assert await change(client, NODE, MINE, (name, SET, wrong)) == ErrorCode.INVALID_REQUEST
    assert followed == []
    assert await change(client, NODE, MINE, (name, SET, value)) == 0
    assert (await describe(client, NODE, MINE))[name][:3] == (value, 2, False)
    assert len(followed) == len(DATA_GROUPS)
    assert followed[0] != JournalSettings(clean_keys_max=followed[0].clean_keys_max), "one of them is not as built in"
    followed.clear()
    assert await change(client, NODE, MINE, (name, DELETE, None)) == 0
    assert (await describe(client, NODE, MINE))[name][:3] == (default, 5, False)
    assert len(followed) == len(DATA_GROUPS)


async def test_nothing_is_named_twice(client: WireClient) -> None:
    twice = [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)]
    assert await change(client, TOPIC, "t", *twice) == ErrorCode.INVALID_REQUEST
    for request, version in (
        (IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [])] * 2), 1),
        (AlterConfigsRequest([WholeResource(TOPIC, "t", [])] * 2), 2),
    ):
        answer = await client.ask(request, version)
        assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


async def test_all_settings_at_once(client: WireClient) -> None:
    assert await replace(client, TOPIC, "t", retention_ms="5", cleanup_policy="compact") == 0
    assert await replace(client, TOPIC, "t", validate_only=True) == 0
    described = await describe(client, TOPIC, "t", "retention.ms", "cleanup.policy")
    assert {name: entry[:2] for name, entry in described.items()} == {
        "retention.ms": ("5", 1), "cleanup.policy": ("compact", 1)
    }  # fmt: skip
    assert await replace(client, TOPIC, "t", retention_ms="6") == 0
    assert (await describe(client, TOPIC, "t"))["cleanup.policy"][:2] == ("delete", 5)
    assert await replace(client, TOPIC, "t", retention_ms=None) == ErrorCode.INVALID_REQUEST
    assert await replace(client, TOPIC, "t", retention_ms="x") == ErrorCode.INVALID_CONFIG
    assert await replace(client, GROUP, "g", consumer_session_timeout_ms="50000") == 0
    assert (await describe(client, GROUP, "g"))["consumer.session.timeout.ms"][0] == "50000"
    assert await replace(client, METRICS, "m", interval_ms="1000") == 0
    assert await replace(client, LOGGER, MINE, root="INFO") == ErrorCode.INVALID_REQUEST


async def test_the_node_says_what_it_cannot_change(client: WireClient) -> None:
    node = await describe(client, NODE, MINE)
    assert node["broker.id"] == ("1", 4, True, [("1", 4)])
    assert node["default.replication.factor"][:3] == ("1", 5, True)
    assert node["log.retention.ms"][:3] == ("604800000", 5, False)
    for name in ("2", "x"):
        assert await describe(client, NODE, name) == ErrorCode.INVALID_REQUEST


async def test_levels_of_loggers(client: WireClient) -> None:
    logger = logging.getLogger("hutong.kafka")
    before = logger.level
    try:
        for level, shown in (("DEBUG", "DEBUG"), ("WARN", "WARN"), ("FATAL", "FATAL"), ("TRACE", "DEBUG")):
            assert await change(client, LOGGER, MINE, ("hutong.kafka", SET, level)) == 0
            told = await describe(client, LOGGER, MINE, "hutong.kafka")
            assert told["hutong.kafka"][:2] in ((shown, 6), (level, 6))
        assert logger.level == logging.DEBUG
        assert await change(client, LOGGER, MINE, ("hutong.kafka", DELETE, None)) == 0
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(before)
    assert "root" in await describe(client, LOGGER, MINE)
    assert await describe(client, LOGGER, "") == ErrorCode.INVALID_REQUEST


async def test_what_has_settings_is_listed(client: WireClient) -> None:
    async def listed(*kinds: int, version: int = 1) -> Any:
        answer = await client.ask(ListConfigResourcesRequest(list(kinds)), version)
        return answer.error_code or [(item.resource_type, item.resource_name) for item in answer.config_resources]

    assert await listed(METRICS) == await listed(version=0) == []
    await change(client, METRICS, "m", ("interval.ms", SET, "1000"), ("metrics", APPEND, "a.b"))
    await change(client, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    assert await listed(version=0) == [(METRICS, "m")]
    assert await listed(GROUP, NODE) == [(GROUP, "g"), (NODE, MINE)]
    assert {(METRICS, "m"), (GROUP, "g"), (NODE, MINE), (LOGGER, MINE), (TOPIC, "t")} <= set(await listed())
    assert await listed(9) == ErrorCode.UNSUPPORTED_VERSION
    told = await describe(client, METRICS, "m")
    assert (told["interval.ms"][:2], told["metrics"][:2], told["match"][:2]) == (("1000", 7), ("a.b", 7), ("", 5))
    assert await describe(client, METRICS, "") == ErrorCode.INVALID_REQUEST
