"""Consumers that read from the replica in their rack (KIP-392), and what a follower can know."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.cluster_scene import HERE, LAST, NEXT, ClusterScene, cluster_scene
from tests.unit.broker.wire_node import batch_of, fetch_request

from hutong.foundation.clock import SystemClock
from hutong.wire.kafka.apis.k01_fetch import FetchRequest, PartitionData
from hutong.wire.kafka.error_codes import ErrorCode

NOBODY = -1
RECORDS = 3


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterScene]:
    """This node leads a partition of three records, in rack `red`; node 2, in sync, and 3 are in rack `blue`."""
    async with cluster_scene(tmp_path, monkeypatch) as made:
        await made.client.create("t")
        made.lead("days", HERE, 4)
        for _ in range(RECORDS):
            await made.client.produce(batch_of(b"v", timestamp_ms=SystemClock().wall_ms()))
        yield made


def request_of(rack: str, offset: int = 0) -> FetchRequest:
    request = fetch_request(offset)
    request.rack_id = rack
    return request


async def fetched(scene: ClusterScene, request: FetchRequest, version: int = 12) -> PartitionData:
    response = await scene.client.ask(request, version)
    data: PartitionData = response.responses[0].partitions[0]
    return data


def follow(scene: ClusterScene, *, is_in_sync: bool = True) -> None:
    """Let node 2 lead, and this node follow."""
    scene.lead("days", NEXT, 5)
    scene.broker.topics.standings["days"].is_followed_here = is_in_sync


@pytest.mark.parametrize(("rack", "preferred"), [("blue", NEXT), ("red", NOBODY), ("green", NOBODY), ("", NOBODY)])
async def test_a_leader_names_the_replica_in_the_clients_rack(scene: ClusterScene, rack: str, preferred: int) -> None:
    data = await fetched(scene, request_of(rack))
    assert (data.error_code, data.preferred_read_replica) == (0, preferred)
    assert bool(data.records) == (preferred == NOBODY)
    assert (data.high_watermark, data.log_start_offset) == (RECORDS, 0)


async def test_only_a_live_replica_in_sync_is_named(scene: ClusterScene) -> None:
    scene.cluster.gone.add(NEXT)
    assert (await fetched(scene, request_of("blue"))).preferred_read_replica == NOBODY
    scene.broker.topics.standings["days"].in_sync = (HERE, LAST)
    assert (await fetched(scene, request_of("blue"))).preferred_read_replica == LAST


async def test_an_offset_that_is_gone_is_the_leaders_to_refuse(scene: ClusterScene) -> None:
    data = await fetched(scene, request_of("blue", RECORDS + 1))
    assert (data.error_code, data.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, NOBODY)


async def test_a_session_hears_of_the_other_replica_each_time(scene: ClusterScene) -> None:
    request = request_of("blue", RECORDS)
    request.session_epoch = 0
    opened = await scene.client.ask(request, 12)
    assert opened.responses[0].partitions[0].preferred_read_replica == NEXT
    again = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1, rack_id="blue")
    assert (await fetched(scene, again)).preferred_read_replica == NEXT


async def test_followers_serve_consumers_that_know_other_replicas(scene: ClusterScene) -> None:
    follow(scene)
    assert (await fetched(scene, fetch_request(0), 11)).records
    assert (await fetched(scene, fetch_request(0), 10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = fetch_request(0)
    request.topics[0].partitions[0].current_leader_epoch = 4
    assert (await fetched(scene, request)).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_follower_out_of_sync_sends_to_the_leader(scene: ClusterScene) -> None:
    follow(scene, is_in_sync=False)
    data = await fetched(scene, fetch_request(0))
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, NEXT)


async def test_a_follower_does_not_know_what_comes_after_its_end(scene: ClusterScene) -> None:
    follow(scene)
    assert (await fetched(scene, fetch_request(RECORDS))).error_code == 0
    assert (await fetched(scene, fetch_request(RECORDS + 1))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await fetched(scene, fetch_request(-1))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
