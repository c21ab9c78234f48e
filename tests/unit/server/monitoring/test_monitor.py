"""A node's own pages: what a scrape says after real requests, and when the node is ready."""

import asyncio
import dataclasses
import errno
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.exposition import parse
from tests.support.held_disk import HeldDisk
from tests.support.monitored import get, monitored_node, scrape, settings
from tests.unit.broker.wire_node import batch_of, client_of

from hutong.broker.topics.lifetimes import DATA_GROUPS, STATE_GROUPS
from hutong.foundation.errors import UsageError
from hutong.journal.files.disk import RealDisk
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.monitoring.brief import OF_REPLICAS, OF_STAGES
from hutong.server.monitoring.metrics import AT_ONCE, METRICS
from hutong.server.serving import node_of
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.error_codes import ErrorCode


def batch() -> bytes:
    return batch_of(b"a", b"b", timestamp_ms=int(time.time() * 1000))


async def test_every_metric_is_on_the_full_page_and_no_other(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info:
        families = await scrape(info)
    assert list(families) == [metric.family.name for metric in METRICS]


async def test_the_brief_page_leaves_out_what_says_nothing_new(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t")
        assert (await client.produce(batch())).error_code == 0
        brief, full = await scrape(info, "/metrics"), await scrape(info)
        assert list(await scrape(info, "/metrics?detail=brief&other=1")) == list(brief), "an unknown query is ignored"
    assert all(family.samples for family in brief.values())
    unlisted = set(full) - set(brief)
    assert {"kafka_topic_partition_leader", "kafka_network_requestmetrics_localtimems"} <= unlisted
    assert {name for name in unlisted if full[name].samples} == {
        name for name in OF_STAGES | OF_REPLICAS if full[name].samples
    }
    spread = "hutong_request_seconds"
    assert brief[spread].value(request="Produce") == full[spread].value(request="Produce") == 1
    assert 0.5 < len(brief[spread].samples) / len(full[spread].samples) < 0.6
    requests = "kafka_network_requestmetrics_requests_total"
    assert brief[requests].value(request="Produce") == 1
    assert 0 not in brief[requests].samples.values()
    assert 0 in brief["hutong_damaged_reads_total"].samples.values(), "an alert must see its first increase"


async def test_the_settings_may_ask_for_the_full_page(tmp_path: Path) -> None:
    async with monitored_node(tmp_path, bounds=MetricsSettings(detail="full")) as info:
        assert list(await scrape(info, "/metrics")) == [metric.family.name for metric in METRICS]


async def test_requests_that_fail_are_counted_by_their_errors(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t")
        assert (await client.produce(batch())).error_code == 0
        assert (await client.produce(batch()[:-1] + b"x")).error_code == ErrorCode.CORRUPT_MESSAGE
        families = await scrape(info)
    errors = families["kafka_network_requestmetrics_errors_total"]
    assert errors.value(request="Produce", error="CORRUPT_MESSAGE") == 1
    assert errors.value(request="Produce", error="NONE") == 1
    assert errors.value(request="CreateTopics", error="NONE") == 1


async def test_a_produce_is_seen_on_each_of_its_stages(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t", retention_ms="-1")
        before = await scrape(info)
        for acks in (-1, 1, -1):
            assert (await client.produce(batch(), acks=acks)).error_code == 0
        after = await scrape(info)
    for stage in ("turn", "queue", "write", "fsync", "release", "safe"):
        assert after["hutong_produce_stage_seconds"].value(group="long", stage=stage) == 3
    assert after["hutong_flushes_total"].value(group="long") == 3
    for name in ("hutong_chunk_bytes", "hutong_chunk_batches", "hutong_flush_chunks"):
        assert after[name].value(group="long") == 3
    given = after["hutong_acknowledgements_total"]
    assert given.value(group="long", qos="all", outcome="given") == 2
    assert given.value(group="long", qos="persistence", outcome="given") == 1
    assert after["kafka_network_requestmetrics_requests_total"].value(request="Produce") == 3
    records, bytes_in = (
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_bytesin_total",
    )
    assert after[records].value() - before[records].value() == 6
    assert after[bytes_in].value() - before[bytes_in].value() == 3 * len(batch())
    assert after["hutong_connections_open"].value() == 1


async def test_examined_batches_are_counted_where_they_were_examined(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t")
        now_ms = int(time.time() * 1000)
        for value in (b"little", bytes(1024 * 1024)):
            packed = batch_of(value, timestamp_ms=now_ms, compression=Compression.GZIP)
            assert (await client.produce(packed)).error_code == 0
        families = await scrape(info)
    assert families["hutong_examined_batches_total"].value(by="loop") >= 1
    assert families["hutong_examined_batches_total"].value(by="worker") == 1
    for by in ("loop", "worker"):
        assert families["hutong_examination_seconds_total"].value(by=by) > 0
    assert families["hutong_examination_wait_seconds"].value() == 1
    assert families["hutong_examinations_waiting"].value() == 0
    assert families["hutong_examinations_refused_total"].value() == 0


async def test_what_waits_and_what_is_held_back_is_shown_while_it_is(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with monitored_node(tmp_path, disk) as info, client_of(info.kafka) as client:
        await client.create("t", retention_ms="-1")
        disk.hold("long")
        waiting = asyncio.ensure_future(client.produce(batch(), acks=-1))
        await disk.held(1)
        families = await scrape(info)
        assert families["hutong_acknowledgements_parked"].value(group="long", qos="all") == 1
        assert families["hutong_unreleased_bytes"].value(group="long") >= len(batch())
        disk.release()
        assert (await waiting).error_code == 0
        families = await scrape(info)
        assert families["hutong_acknowledgements_parked"].value(group="long", qos="all") == 0
        assert families["hutong_unreleased_bytes"].value(group="long") == 0


async def test_labels_are_few_whatever_clients_do(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        for number in range(20):
            await client.create(f"topic-{number}")
            await client.produce(batch(), f"topic-{number}")
        families = await scrape(info)
    groups = {
        value
        for family in families.values()
        for _, labels in family.samples
        for name, value in labels
        if name == "group"
    }
    assert groups == {*STATE_GROUPS, *DATA_GROUPS}
    for metric in AT_ONCE:
        assert "topic-" not in str(families[metric.family.name].samples)


async def test_a_node_that_takes_records_is_ready(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info:
        assert await get(info.metrics, "/healthz") == (200, "ok\n")
        assert await get(info.metrics, "/readyz") == (200, "ready\n")
        assert (await get(info.metrics, "/other"))[0] == 404


async def test_a_node_one_group_of_which_has_failed_lives_and_is_not_ready(tmp_path: Path) -> None:
    plan = FaultPlan()
    async with monitored_node(tmp_path, FaultyDisk(RealDisk(), plan)) as info, client_of(info.kafka) as client:
        await client.create("t", retention_ms="-1")
        plan.add("flush", errno.EIO, pattern="*/groups/long/*")
        assert (await client.produce(batch())).error_code == 56
        status, reasons = await get(info.metrics, "/readyz")
        assert status == 503
        assert reasons.startswith("partition group long has failed: ")
        assert await get(info.metrics, "/healthz") == (200, "ok\n")
        assert (await scrape(info))["hutong_group_failed"].value(group="long") == 1
        plan.heal()


async def test_a_node_with_a_full_disk_is_not_ready_until_there_is_space(tmp_path: Path) -> None:
    plan = FaultPlan()
    async with monitored_node(tmp_path, FaultyDisk(RealDisk(), plan)) as info, client_of(info.kafka) as client:
        await client.create("t", retention_ms="-1")
        for operation in ("write", "preallocate"):
            plan.add(operation, errno.ENOSPC, pattern="*/groups/long/*")
        assert (await client.produce(batch())).error_code == 56
        assert await get(info.metrics, "/readyz") == (503, "partition group long has no space left\n")
        assert (await scrape(info))["hutong_group_disk_full"].value(group="long") == 1
        plan.heal()
        async with asyncio.timeout(30):
            while (await get(info.metrics, "/readyz"))[0] != 200:
                pass


async def test_a_read_that_fails_is_told_everywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = FaultPlan()
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t", retention_ms="-1")
        assert (await client.produce(batch())).error_code == 0
    async with (
        monitored_node(tmp_path, FaultyDisk(RealDisk(), plan)) as info,  # started anew, so that it reads the disk
        client_of(info.kafka) as client,
    ):
        plan.add("read", errno.EIO, pattern="*/groups/long/*.journal")
        plan.add("read_cached", errno.EAGAIN, pattern="*/groups/long/*.journal")
        for _ in range(3):
            assert (await client.fetch(0)).error_code == 56
        assert (await client.produce(batch())).error_code == 0, "writing goes on"
        families = await scrape(info)
        assert families["hutong_failed_reads_total"].value(group="long") == 3
        assert families["hutong_failed_reads_total"].value(group="days") == 0
        status, reasons = await get(info.metrics, "/readyz")
        assert status == 503
        assert reasons.startswith("partition group long could not be read: cannot read ")
        told = [line for line in caplog.messages if "KAFKA_STORAGE_ERROR" in line]
        assert len(told) == 1, "not one for each"
        plan.heal()
        assert (await client.fetch(0)).error_code == 0


async def test_a_node_that_recovers_lives_and_is_not_ready(tmp_path: Path) -> None:
    broker = BrokerPart(settings(tmp_path))
    node = node_of(broker)
    await broker.monitor.open(node)
    address = node.addresses.metrics
    assert await get(address, "/healthz") == (200, "ok\n")
    assert await get(address, "/readyz") == (503, "the node is not accepting clients\n")
    parse((await get(address, "/metrics"))[1])
    await node.stop()


async def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    async with monitored_node(tmp_path / "a") as info:
        assert info.metrics is not None
        node = node_of(BrokerPart(settings(tmp_path / "b", info.metrics)))
        with pytest.raises(UsageError, match="choose another address with --metrics"):
            await node.start()
        await node.stop()


async def test_nothing_is_served_unless_it_is_asked_for(tmp_path: Path) -> None:
    node = node_of(BrokerPart(dataclasses.replace(settings(tmp_path), metrics=MetricsSettings())))
    try:
        assert (await node.start()).metrics is None
    finally:
        await node.stop()


def test_the_pages_of_the_documentation_explain_no_metric_that_is_not_there() -> None:
    docs = Path(__file__).parents[4] / "docs"
    page = (docs / "metrics.md").read_text() + (docs / "operations.md").read_text()
    names = {metric.family.name for metric in METRICS}
    explained = set(re.findall(r"`((?:hutong|kafka|process)_[a-z_]+?)(?:_bucket|_sum|_count)?(?:\{[^`]*)?`", page))
    assert explained - names == set()
    assert "```{metrics-table}" in page


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
async def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    async with monitored_node(tmp_path) as info, client_of(info.kafka) as client:
        await client.create("t")
        await client.produce(batch())
        _, body = await get(info.metrics, "/metrics")
    done = await asyncio.to_thread(
        subprocess.run, ["promtool", "check", "metrics"], input=body, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
