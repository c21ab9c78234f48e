"""What the page of metrics shows of topics and groups: under which names, within which bounds, and how old lag is."""

import asyncio
import time
from pathlib import Path

from tests.support.exposition import ParsedFamily
from tests.support.monitored import monitored_node, scrape
from tests.unit.broker.wire_node import WireClient, batch_of, client_of

from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.monitoring.survey.result import FOLDED
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

INTERNAL = 4  # topics that every node has
AN_HOUR_S = 3600
Values = dict[tuple[str, ...], float]


def now_ms() -> int:
    return int(time.time() * 1000)


def values(family: ParsedFamily) -> Values:
    """The samples by the values of their labels."""
    return {tuple(value for _, value in labels): value for (_, labels), value in family.samples.items()}


def of(families: dict[str, ParsedFamily], name: str, *first: str) -> Values:
    """Those whose first labels are given, by the others."""
    found = values(families[name]).items()
    return {key[len(first) :]: value for key, value in found if key[: len(first)] == first}


async def commit(client: WireClient, group: str, topic: str, offsets: dict[int, int]) -> None:
    partitions = [OffsetCommitRequestPartition(index, offset) for index, offset in offsets.items()]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)])
    answer = await client.ask(request, 8)
    assert all(partition.error_code == 0 for partition in answer.topics[0].partitions)


async def test_offsets_and_lag_have_the_names_that_dashboards_read(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t", 2)
        for _ in range(3):
            await client.produce(batch_of(b"a", b"b", timestamp_ms=now_ms()))
        await commit(client, "readers", "t", {0: 2, 1: 0})
        families = await scrape(info)
    assert of(families, "kafka_topic_partitions", "t") == {(): 2}
    assert of(families, "kafka_topic_partition_current_offset", "t") == {("0",): 6, ("1",): 0}
    assert of(families, "kafka_topic_partition_oldest_offset", "t") == {("0",): 0, ("1",): 0}
    assert of(families, "kafka_topic_partition_under_replicated_partition", "t") == {("0",): 0, ("1",): 0}
    assert of(families, "kafka_log_log_size", "t")["0",] > 3 * 61
    assert of(families, "kafka_consumergroup_current_offset", "readers", "t") == {("0",): 2, ("1",): 0}
    assert of(families, "kafka_consumergroup_lag", "readers", "t") == {("0",): 4, ("1",): 0}
    assert of(families, "kafka_consumergroup_members", "readers") == {(): 0}
    assert of(families, "kafka_topic_partition_leader", "t") == {("0",): 1, ("1",): 1}
    assert of(families, "hutong_groups") == {("classic", "Empty"): 1}
    assert families["kafka_coordinator_group_groupmetadatamanager_numgroupsempty"].value() == 1
    assert families["kafka_brokers"].value() == 1
    assert families["kafka_server_replicamanager_partitioncount"].value() == INTERNAL + 2
    assert families["kafka_controller_kafkacontroller_offlinepartitionscount"].value() == 0
    assert set(of(families, "hutong_metrics_folded").values()) == {0}
    assert set(of(families, "hutong_metrics_folded")) == {(kind,) for kind in FOLDED}


async def test_traffic_is_told_of_all_topics_and_of_each(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t", 2)
        batch = batch_of(b"a", b"b", timestamp_ms=now_ms())
        before = await scrape(info)
        for partition in (0, 0, 1):
            await client.produce(batch, partition=partition)
        for _ in range(2):
            await client.fetch(0)
        after = await scrape(info)
    for name, rise in (("messagesin", 6), ("bytesin", 3 * len(batch)), ("bytesout", 2 * 2 * len(batch))):
        figures = [of(families, f"kafka_server_brokertopicmetrics_{name}_total") for families in (before, after)]
        assert figures[0]["t",] == 0
        assert figures[1]["t",] == figures[1][()] - figures[0][()] == rise


async def test_lag_has_an_age_that_is_the_next_record_s(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t")
        for hours in (3, 2, 1):
            await client.produce(batch_of(b"a", timestamp_ms=now_ms() - hours * AN_HOUR_S * 1000))
        for group, offset in (("new", 0), ("middle", 2), ("done", 3)):
            await commit(client, group, "t", {0: offset})
        families = await scrape(info)
    ages = {key[0]: age for key, age in of(families, "kafka_consumergroup_lag_seconds").items()}
    assert ages["done"] == 0
    assert 3 * AN_HOUR_S <= ages["new"] < 4 * AN_HOUR_S
    assert AN_HOUR_S <= ages["middle"] < 2 * AN_HOUR_S


async def test_topics_beyond_the_bound_are_one(tmp_path: Path) -> None:
    async with (
        monitored_node(tmp_path, bounds=MetricsSettings(max_topics=INTERNAL + 2)) as info,
        client_of(info.kafka) as client,
    ):
        for number in range(5):
            await client.create(f"t{number}", 2)
            await client.produce(batch_of(b"a", timestamp_ms=now_ms()), f"t{number}")
        families = await scrape(info)
    partitions = of(families, "kafka_topic_partitions")
    assert len(partitions) == INTERNAL + 3
    assert partitions["(other)",] == 6
    assert of(families, "kafka_topic_partition_current_offset", "(other)") == {("(other)",): 3}
    assert of(families, "kafka_topic_partition_current_offset", "t1") == {("0",): 1, ("1",): 0}
    assert of(families, "hutong_metrics_folded", "topics") == {(): 3}
    assert of(families, "hutong_metrics_folded", "partitions") == {(): 6}
    assert families["kafka_controller_kafkacontroller_globaltopiccount"].value() == INTERNAL + 5
    assert families["kafka_server_replicamanager_partitioncount"].value() == INTERNAL + 10


async def test_a_topic_beyond_the_bound_of_partitions_is_one_sum(tmp_path: Path) -> None:
    async with (
        monitored_node(tmp_path, bounds=MetricsSettings(max_partitions=INTERNAL + 4)) as info,
        client_of(info.kafka) as client,
    ):
        for name, count in (("small", 2), ("large", 3), ("last", 2)):
            await client.create(name, count)
            await client.produce(batch_of(b"a", timestamp_ms=now_ms()), name)
        families = await scrape(info)
    offsets = of(families, "kafka_topic_partition_current_offset")
    assert {key: offsets[key] for key in offsets if not key[0].startswith("__")} == {
        ("small", "0"): 1,
        ("small", "1"): 0,
        ("large", "(other)"): 1,
        ("last", "(other)"): 1,
    }
    assert of(families, "kafka_topic_partition_replicas", "large") == {("(other)",): 3}
    assert of(families, "hutong_metrics_folded", "partitions") == {(): 5}


async def test_groups_beyond_the_bounds_are_summed(tmp_path: Path) -> None:
    bounds = MetricsSettings(max_groups=2, max_group_partitions=3)
    async with monitored_node(tmp_path, bounds=bounds) as info, client_of(info.kafka) as client:
        await client.create("t", 2)
        await client.produce(batch_of(b"a", b"b", timestamp_ms=now_ms()))
        for group in ("(other)", "a", "b", "c"):
            await commit(client, group, "t", {0: 1, 1: 0})
        families = await scrape(info)
    assert of(families, "kafka_consumergroup_lag") == {
        ("a", "t", "0"): 1,
        ("a", "t", "1"): 0,
        ("b", "(other)", "(other)"): 1,
        ("(other)", "(other)", "(other)"): 2,
    }
    assert set(of(families, "kafka_consumergroup_lag_seconds")) == {("a", "t", "0"), ("a", "t", "1")}
    assert set(of(families, "kafka_consumergroup_members")) == {("a",), ("b",), ("(other)",)}
    assert of(families, "hutong_metrics_folded", "groups") == {(): 2}
    assert of(families, "hutong_metrics_folded", "group_partitions") == {(): 6}
    assert of(families, "hutong_groups") == {("classic", "Empty"): 4}


async def test_a_large_page_leaves_the_loop_to_others_between_its_steps(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("wide", 2000)
        scraped = asyncio.ensure_future(scrape(info))
        turns = 0
        while not scraped.done():
            await asyncio.sleep(0)
            turns += 1
        families = await scraped
    assert len(of(families, "kafka_topic_partition_current_offset", "wide")) == 2000
    samples = sum(len(family.samples) for family in families.values())
    assert turns > samples / 500, "a step writes a bounded number of lines"
