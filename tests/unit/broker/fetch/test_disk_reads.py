"""Fetches of what has left memory: whole, in fair turns, and answered also where there is no room."""

import dataclasses
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.rights import everybody_may
from tests.support.sessions import session_of
from tests.unit.broker.wire_node import batch_of, client_of, fetch_request, running_node
from tests.unit.journal.stage import Stage, records_of

from hutong.broker.fetch.actors import Actor
from hutong.broker.fetch.disk_reads import CONTENDED_ANSWER_BYTES_MAX, CONTENDED_BYTES_MAX, DiskReads
from hutong.broker.fetch.fetch_pass import FetchPass, ReadRights
from hutong.broker.handling.cluster_view import AloneView
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.log_limit import LOG_INTERVAL_MS
from hutong.broker.handling.node_facts import BrokerSettings
from hutong.broker.handling.session import ClientSession
from hutong.broker.topics.group_standing import GroupStanding
from hutong.broker.topics.partition import Partition
from hutong.foundation.errors import CorruptData, Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.waiting.pending import Pending
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.actor_configs import DEFAULT, EXPIRY_MS_MAX, ActorRules
from hutong.journal.files.segment import Segment
from hutong.journal.log import DISK_READ_BYTES_MAX, DiskRead
from hutong.scheduler.driver import FairExecutor
from hutong.scheduler.machine import COST_MAX, Scheduler
from hutong.server.configuration.sections.facts import KIBIBYTE, MEBIBYTE
from hutong.server.configuration.sections.log import LogSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

FORGETFUL = Settings(log=LogSettings(cache_region_bytes=64 * KIBIBYTE, cache_bytes=MEBIBYTE, segment_bytes=MEBIBYTE))


def actor_of(reader: ClientSession) -> Actor:
    """An actor for each connection, as of clients of different names."""
    return Actor("t", (), f"client {reader.id}")


class Scene:
    """A journal whose records have left memory, and the queue for it, where nothing happens by itself."""

    def __init__(self, is_cached: bool = True, mailbox_max: int = 10, cost_max: int = COST_MAX) -> None:
        self.stage = Stage()
        for number in range(100):
            self.stage.append(1, b"v%d" % number)
            self.stage.settle()
        self.stage.disk.is_cached = is_cached
        self.turns: deque[Callable[[], None]] = deque()
        table: WaitTable[Any] = WaitTable("cold reads", self.stage.wheel, 100)
        self.is_contended = False

        def executor() -> FairExecutor:
            machine = Scheduler(mailbox_max=mailbox_max, cost_max=cost_max)
            return FairExecutor(machine, table, self.stage.clock, self.turns.append)

        self.reads = DiskReads(executor, self.stage.clock, lambda: self.is_contended)
        standing = GroupStanding(0, is_led_here=True)
        log = self.stage.journal.log(1)
        self.partition = Partition("t", 0, log, None, "days", standing, is_internal=False)  # type: ignore[arg-type]
        self.outcomes: list[list[memoryview] | HutongError] = []

    def read(self, reader: ClientSession, offset: int = 0, rules: ActorRules = DEFAULT) -> None:
        cold = self.partition.log.read(offset, 1000)
        assert isinstance(cold, DiskRead)
        self.reads.read(cold, self.partition, offset, reader, actor_of(reader), rules, self.outcomes.append)

    def settle(self) -> None:
        while self.turns:
            self.turns.popleft()()
            self.stage.settle()


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_read_is_answered_from_the_page_cache_or_by_a_worker(is_cached: bool) -> None:
    scene = Scene(is_cached)
    scene.stage.read(1, 5)  # loads the segment's index
    workers_total = scene.stage.journal.reader.worker_reads_total
    scene.read(session_of(1), 5)
    assert scene.outcomes == []
    scene.settle()
    (found,) = scene.outcomes
    assert isinstance(found, list)
    assert records_of(found)[0] == (5, b"v5")
    assert scene.stage.journal.reader.worker_reads_total == workers_total + (not is_cached)


def test_an_actor_that_asks_for_much_has_one_turn_when_another_had_one() -> None:
    scene = Scene(is_cached=False)
    greedy, modest = session_of(1), session_of(2)
    for offset in range(5):
        scene.read(greedy, offset)
    scene.read(modest, 50)
    scene.turns.popleft()()
    scene.turns.popleft()()
    scene.stage.settle()
    scene.settle()
    offsets = [records_of(found)[0][0] for found in scene.outcomes if isinstance(found, list)]
    assert offsets.index(50) <= 1
    assert sorted(offsets) == [0, 1, 2, 3, 4, 50]


def test_reads_are_small_while_somebody_waits_for_the_disk() -> None:
    scene = Scene()
    assert scene.reads.bytes_max == DISK_READ_BYTES_MAX
    assert scene.reads.answer_bytes_max(8 * MEBIBYTE) == 8 * MEBIBYTE
    scene.is_contended = True
    assert scene.reads.bytes_max == CONTENDED_BYTES_MAX
    assert scene.reads.answer_bytes_max(8 * MEBIBYTE) == CONTENDED_ANSWER_BYTES_MAX
    assert scene.reads.answer_bytes_max(KIBIBYTE) == KIBIBYTE
    cold = scene.partition.log.read(0, 1 << 20, disk_bytes_max=300)
    assert isinstance(cold, DiskRead)
    assert cold.size == 300


def test_where_there_is_no_room_the_reader_is_told() -> None:
    scene = Scene(mailbox_max=1)
    reader = session_of(1)
    scene.read(reader)
    scene.read(reader)
    (refused,) = scene.outcomes
    assert isinstance(refused, LimitExceeded)
    scene.settle()
    assert len(scene.outcomes) == 2


def test_a_read_that_the_disk_never_ends_is_answered_and_a_gone_reader_is_forgotten() -> None:
    scene = Scene(is_cached=False)
    scene.read(session_of(1))
    gone = session_of(2)
    scene.read(gone)
    gone.owner.end()
    scene.turns.popleft()()
    scene.stage.advance(EXPIRY_MS_MAX)
    assert [type(outcome) for outcome in scene.outcomes] == [OwnerGone, Expired]
    scene.settle()
    scene.stage.settle()
    assert len(scene.outcomes) == 2


def test_damage_is_told_once_in_each_interval(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    segment = scene.stage.journal._parts.segments.all()[0]
    scene.stage.disk.flip_bit(segment.path, 130)
    for _ in range(3):
        scene.read(session_of(1))
        scene.settle()
    assert [type(outcome) for outcome in scene.outcomes] == [CorruptData] * 3
    assert len(caplog.messages) == 1
    assert f"{segment.path}: the batch at position " in caplog.messages[0]
    assert "topic t partition 0 are refused offset 0" in caplog.messages[0]
    scene.stage.advance(LOG_INTERVAL_MS)
    scene.read(session_of(1))
    scene.settle()
    assert "2 more like it before" in caplog.messages[1]
    assert scene.reads.damaged_total == 4


def test_a_fetch_that_finds_no_room_is_answered_with_a_throttle_time() -> None:
    scene = Scene(mailbox_max=1)
    reader = session_of(1)
    surroundings = SimpleNamespace(
        authorizer=everybody_may(),
        cluster=AloneView(1),
        disk_reads=scene.reads,
        read_actors=SimpleNamespace(of_fetch=lambda session, *_: (actor_of(session), DEFAULT)),
        settings=BrokerSettings(fetch_throttle_ms=70),
        memory=SimpleNamespace(is_tight=False),
        served_bytes_total=0,
    )
    context = RequestContext(12, "client", reader, surroundings)
    found = FetchPass(FetchRequest(), context, ReadRights.ALL)
    for offset in (0, 50):
        cold = scene.partition.log.read(offset, 1000)
        assert isinstance(cold, DiskRead)
        data = PartitionData(offset, records=[])
        found.response.responses.append(FetchableTopicResponse("t", partitions=[data]))
        found.disk_reads.append((scene.partition, offset, cold, data, None))
    answer = found.answer()
    assert isinstance(answer, Pending)
    scene.settle()
    assert answer.is_complete
    served, refused = (entry.partitions[0] for entry in found.response.responses)
    assert (served.error_code, bool(served.records)) == (0, True)
    assert (refused.error_code, refused.records) == (0, [])
    assert found.response.throttle_time_ms == 70


async def test_a_fetch_of_many_cold_partitions_brings_a_bounded_part_of_them(tmp_path: Path) -> None:
    value = bytes(900 * KIBIBYTE)
    partitions = 12
    async with running_node(tmp_path, FORGETFUL) as address, client_of(address) as client:
        await client.create("t", partitions=partitions)
        for partition in (*range(partitions), *[0] * 3):
            answer = await client.produce(batch_of(value, timestamp_ms=-1), partition=partition)
            assert answer.error_code == 0
        asked = [FetchPartition(partition=number, fetch_offset=0) for number in range(partitions)]
        request = dataclasses.replace(
            fetch_request(0, "t"), max_bytes=1 << 26, topics=[FetchTopic("t", partitions=asked)]
        )
        for part in asked:
            part.partition_max_bytes = MEBIBYTE
        assert isinstance(request, FetchRequest)
        answered = (await client.ask(request, 12)).responses[0].partitions
        found = [data for data in answered if data.records]
        assert all(data.error_code == 0 for data in answered)
        assert 0 < sum(len(data.records) for data in found) <= BrokerSettings().fetch_disk_bytes_max + 3 * MEBIBYTE
        assert len(found) < partitions


def test_reads_of_a_journal_that_has_stalled_hold_up_no_other_journal() -> None:
    scene = Scene(is_cached=False, cost_max=1)
    scene.read(session_of(1))
    scene.turns.popleft()()  # on its way, and as much as there may be
    other = scene.partition.log.read(5, 1000)
    assert isinstance(other, DiskRead)
    elsewhere = dataclasses.replace(other, segment=Segment(0, Path("/data/other/x.journal")))
    for number, found in ((2, elsewhere), (3, other)):
        reader = session_of(number)
        scene.reads.read(found, scene.partition, 5, reader, actor_of(reader), DEFAULT, scene.outcomes.append)
    while scene.turns:
        scene.turns.popleft()()
    assert len(scene.stage.steps.waiting) == 2, "the other journal's goes on, this one's second waits"
