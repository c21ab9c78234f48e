"""The catalogue over real journals on a simulated disk: what was answered is there after a restart."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import PARTITIONS_PER_TOPIC_MAX, Topics, check_topic_name
from hutong.broker.topics.group_standing import standings_alone
from hutong.broker.topics.internal_topics import METADATA_TOPIC
from hutong.broker.topics.lifetimes import DATA_GROUPS, METADATA_GROUP
from hutong.broker.topics.partition import Topic
from hutong.broker.topics.partition_budget import PartitionBudget
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.journal.journal import Journal
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.offload import InlineOffload
from hutong.testing.disks.simulated import SimDisk
from hutong.wire.kafka.error_codes import ErrorCode

SETTINGS = JournalSettings(segment_bytes=1 << 20, preallocate_bytes=4096, region_bytes=65536, cached_bytes_max=65536)


class Node:
    """As much of a node as the catalogue needs."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self._random = Random(7)
        self.journals: dict[str, Journal] = {}
        self.topics: Topics

    async def start(self) -> None:
        self.clock, self.wheel = clock, wheel = ManualClock(), TimerWheel(0)
        for group in (METADATA_GROUP, *DATA_GROUPS):
            self.journals[group] = await Journal.open(
                Path("/data") / group,
                disk=self.disk,
                offload=InlineOffload(),
                clock=clock,
                timers=wheel,
                settings=SETTINGS,
            )
        standings = standings_alone(self.journals, 0)
        self.topics = Topics(self.journals, {}, self._random.randbytes, WaitTable("creations", wheel, 100), standings)
        state = StateTopic(METADATA_TOPIC, LogStorage(self.journals[METADATA_GROUP].log(0)), clock)
        await state.replay(self.topics.replay)
        state.on_late = self.topics.replay
        self.topics.start(state)

    def crash(self) -> None:
        for journal in self.journals.values():
            journal.abort()
        self.disk.crash(Random(1))

    async def create(self, name: str, partitions: int = 1, **overrides: str) -> Topic:
        made: asyncio.Future[Topic | HutongError] = asyncio.get_running_loop().create_future()
        config = {key.replace("_", "."): value for key, value in overrides.items()}
        self.topics.create(name, partitions, config, made.set_result)
        outcome = await made
        assert isinstance(outcome, Topic), outcome
        return outcome


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node()
    await made.start()
    yield made
    for journal in made.journals.values():
        journal.abort()


async def test_a_topic_that_was_answered_is_there_after_a_crash(node: Node) -> None:
    topic = await node.create("orders", 3, retention_ms="1000")
    node.crash()
    await node.start()
    again = node.topics.get("orders")
    assert again is not None
    assert again.topic_id == topic.topic_id
    assert node.topics.by_id(topic.topic_id) is again
    assert again.log_ids == topic.log_ids
    assert again.config.retention_ms == 1000
    assert again.group == "hours"
    assert [partition.index for partition in again.partitions] == [0, 1, 2]


async def test_log_ids_are_never_used_again(node: Node) -> None:
    used = list((await node.create("first", 5)).log_ids)
    for round_number in range(3):
        node.crash()
        await node.start()
        used += (await node.create(f"after-{round_number}", 700)).log_ids
    assert len(set(used)) == len(used)


async def test_a_deleted_topic_stays_away_and_its_logs_are_found(node: Node) -> None:
    topic = await node.create("orders", 2)
    gone: asyncio.Future[HutongError | None] = asyncio.get_running_loop().create_future()
    node.topics.delete(topic, gone.set_result)
    assert await gone is None
    assert node.topics.get("orders") is None
    node.crash()
    await node.start()
    assert node.topics.get("orders") is None
    assert node.topics.all() == []
    renewed = await node.create("orders", 2)
    assert renewed.topic_id != topic.topic_id
    assert not set(renewed.log_ids) & set(topic.log_ids)


async def test_those_who_ask_for_a_topic_in_the_making_share_it(node: Node) -> None:
    got: list[Topic | HutongError] = []
    for _ in range(3):
        node.topics.get_or_create("orders", 1, got.append)
    with pytest.raises(Refused) as refused:
        node.topics.create("orders", 1, {}, got.append)
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    await node.create("another")
    assert len(got) == 3
    assert all(topic is node.topics.get("orders") for topic in got)


async def test_settings_and_growth_survive(node: Node) -> None:
    topic = await node.create("orders", 1)
    done: list[HutongError | None] = []
    node.topics.add_partitions(topic, 4, done.append)
    await node.create("wait")
    node.topics.alter(topic, {"hutong.qos": "receive"}, done.append)
    await node.create("wait-again")
    assert done == [None, None]
    node.crash()
    await node.start()
    again = node.topics.get("orders")
    assert again is not None
    assert len(again.partitions) == len(set(again.log_ids)) == 4
    assert again.config.receive_qos
    assert all(partition.log.receive_qos for partition in again.partitions)


@pytest.mark.parametrize("count", [0, -1, PARTITIONS_PER_TOPIC_MAX + 1, 2**31 - 1])
async def test_a_partition_count_out_of_bounds_is_refused(node: Node, count: int) -> None:
    with pytest.raises(Refused) as refused:
        node.topics.create("orders", count, {}, lambda _: None)
    assert refused.value.code == ErrorCode.INVALID_PARTITIONS


async def test_a_topic_does_not_shrink(node: Node) -> None:
    topic = await node.create("orders", 2)
    for count in (1, 2, PARTITIONS_PER_TOPIC_MAX + 1):
        with pytest.raises(Refused) as refused:
            node.topics.add_partitions(topic, count, lambda _: None)
        assert refused.value.code == ErrorCode.INVALID_PARTITIONS


async def test_a_failing_disk_answers_everyone_who_waits(node: Node) -> None:
    got: list[Topic | HutongError] = []
    node.disk.failing_flushes = 1
    node.topics.get_or_create("orders", 1, got.append)
    node.topics.get_or_create("orders", 1, got.append)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(got) == 2
    assert all(isinstance(outcome, HutongError) for outcome in got)
    assert node.topics.get("orders") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "with space", "sl/ash", "naïve", "nul\0", "line\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        check_topic_name(name)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "a" * 249, "...", "A-b_c.9"])
def test_a_legal_name_passes(name: str) -> None:
    check_topic_name(name)


# -- a full disk


async def test_changes_at_the_same_time_undo_none_of_each_other(node: Node) -> None:
    topic = await node.create("orders", 1, retention_ms="1000")
    done: list[HutongError | None] = []
    node.topics.add_partitions(topic, 2, done.append)
    node.topics.alter(topic, {**node.topics.overrides_of(topic), "segment.bytes": "20000"}, done.append)
    node.topics.alter(topic, {**node.topics.overrides_of(topic), "hutong.qos": "receive"}, done.append)
    node.topics.add_partitions(topic, 4, done.append)
    with pytest.raises(Refused, match="currently has 4"):
        node.topics.add_partitions(topic, 3, done.append)
    await node.create("wait")
    assert done == [None, None, None, None]
    for _ in range(2):
        again = node.topics.get("orders")
        assert again is not None
        assert len(again.partitions) == len(set(again.log_ids)) == 4
        assert again.overrides == {"retention.ms": "1000", "segment.bytes": "20000", "hutong.qos": "receive"}
        node.crash()
        await node.start()


async def test_a_change_does_not_bring_back_what_is_being_deleted(node: Node) -> None:
    topic = await node.create("orders", 1)
    done: list[HutongError | None] = []
    node.topics.delete(topic, done.append)
    for change in (
        lambda: node.topics.alter(topic, {"segment.bytes": "20000"}, done.append),
        lambda: node.topics.add_partitions(topic, 2, done.append),
        lambda: node.topics.overrides_of(topic),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await node.create("wait")
    assert done == [None]
    node.crash()
    await node.start()
    assert node.topics.get("orders") is None


async def test_after_a_deletion_that_failed_the_topic_can_be_changed(node: Node) -> None:
    topic = await node.create("orders", 1)
    node.disk.plan.add("write", errno.ENOSPC, pattern="*/metadata/*")
    done: list[HutongError | None] = []
    node.topics.delete(topic, done.append)
    await asyncio.sleep(0)
    assert [type(each) for each in done] == [Refused]
    assert node.topics.overrides_of(topic) == {}


class Full:
    """A node whose catalogue has no space for what comes, and what its requests come to."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.outcomes: list[Topic | HutongError | None] = []
        node.disk.plan.add("write", errno.ENOSPC, pattern="*/metadata/*")

    def create(self, name: str, partitions: int = 1) -> None:
        self.node.topics.create(name, partitions, {}, self.outcomes.append)

    async def request(self, name: str) -> None:
        """The first one is in flight when the disk turns out to be full."""
        self.create(name)
        await asyncio.sleep(0)
        assert self.node.journals[METADATA_GROUP].is_disk_full

    async def get_space(self) -> None:
        self.node.disk.plan.heal()
        self.node.clock.advance(SETTINGS.shortage_retry_ms + 20)
        self.node.wheel.advance(self.node.clock.monotonic_ms())
        assert not self.node.journals[METADATA_GROUP].is_disk_full


async def test_a_creation_on_a_full_disk_is_refused_in_words(node: Node) -> None:
    full = Full(node)
    await full.request("in-flight")
    full.create("one-more")
    assert len(full.outcomes) == 2
    for refused in full.outcomes:
        assert isinstance(refused, Refused)
        assert refused.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space is left" in str(refused)
    await full.get_space()
    assert (await node.create("one-more")).name == "one-more"


async def test_what_was_refused_and_is_written_after_all_takes_effect_at_once(node: Node) -> None:
    """A node must believe what its next start will: else it would take records for a topic that is deleted then."""
    await node.create("kept")
    doomed = await node.create("doomed")
    full = Full(node)
    node.topics.delete(doomed, full.outcomes.append)
    full.create("made")
    await asyncio.sleep(0)
    assert [type(outcome) for outcome in full.outcomes] == [Refused, Refused]
    assert node.topics.get("doomed") is not None
    assert node.topics.get("made") is None
    await full.get_space()
    now = {topic.name: topic.topic_id for topic in node.topics.all()}
    assert now.keys() == {"kept", "made"}
    node.crash()
    await node.start()
    assert {topic.name: topic.topic_id for topic in node.topics.all()} == now


async def test_log_ids_stay_unique_when_their_reservation_was_refused(node: Node) -> None:
    full = Full(node)
    await full.request("in-flight")
    for partitions in (900, 200):
        full.create(f"refused-{partitions}", partitions)
        assert isinstance(full.outcomes[-1], Refused)
    await full.get_space()
    used = list((await node.create("first", 800)).log_ids)
    node.crash()
    await node.start()
    used += (await node.create("second", 800)).log_ids
    assert len(set(used)) == len(used)


async def test_creations_on_their_way_count_and_one_client_leaves_room_for_others(node: Node) -> None:
    node.topics.budget = PartitionBudget(100)
    got: list[Topic | HutongError] = []
    for number in range(3):
        node.topics.create(f"flood-{number}", 25, {}, got.append, "flood")
    with pytest.raises(Refused) as refused:
        node.topics.create("flood-3", 1, {}, got.append, "flood")
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    node.topics.create("other", 12, {}, got.append, "other")
    await until(lambda: len(got) == 4)
    flood = node.topics.get("flood-0")
    assert flood is not None
    with pytest.raises(Refused):
        node.topics.add_partitions(flood, 26, lambda _: None)
    deleted: list[HutongError | None] = []
    node.topics.delete(flood, deleted.append)
    await until(lambda: deleted == [None])
    node.topics.create("flood-4", 9, {}, got.append, "flood")
    await until(lambda: len(got) == 5)
    assert node.topics.budget.taken == 71


async def test_what_a_failing_disk_did_not_take_is_not_counted(node: Node) -> None:
    node.disk.failing_flushes = 1
    got: list[Topic | HutongError] = []
    node.topics.create("orders", 7, {}, got.append, "ann")
    await until(lambda: len(got) == 1)
    assert isinstance(got[0], HutongError)
    assert node.topics.budget.taken == 0


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(100):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about")
