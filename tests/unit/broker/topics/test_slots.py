"""Partitions over several groups of one lifetime, and groups whose journal or leader becomes another."""

import json
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.stage import Stage

from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.group_standing import GroupStanding, standings_alone
from hutong.broker.topics.lifetimes import DATA_GROUPS, data_groups, dealt_slots, group_of_slot
from hutong.broker.topics.partition import Topic, record_of
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import WaitTable

GROUPS = ("days", "days-1", "days-2")


class Applied:
    """A log of the catalogue that keeps what it is given and says at once that it is durable."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        self.records.append((key, value))
        then(None)


class Scene:
    """A catalogue with three slots, whose node leads the first two groups."""

    def __init__(self) -> None:
        self.stages = {group: Stage() for group in GROUPS}
        self.journals = {group: stage.journal for group, stage in self.stages.items()}
        self.standings = {group: GroupStanding(1, 4, (1, 2), is_led_here=group != "days-2") for group in GROUPS}
        waits: WaitTable[Topic] = WaitTable("creations", TimerWheel(0), 10)
        self.topics = Topics(self.journals, {}, Random(5).randbytes, waits, self.standings, slots=3)
        self.log = Applied()
        self.topics.start(self.log)

    def create(self, name: str, partitions: int) -> Topic:
        made: list[Topic | HutongError] = []
        self.topics.create(name, partitions, {}, made.append)
        (topic,) = made
        assert isinstance(topic, Topic)
        return topic


def test_the_first_slot_has_the_name_of_the_lifetime() -> None:
    assert [group_of_slot("days", slot) for slot in range(3)] == list(GROUPS)
    assert data_groups(1) == DATA_GROUPS
    assert len(set(data_groups(3))) == 3 * len(DATA_GROUPS)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 7), st.integers(1, 40), st.integers(0, 40))
def test_partitions_are_dealt_evenly_also_those_that_come_later(
    topic_id: bytes, slots: int, count: int, more: int
) -> None:
    dealt = dealt_slots(topic_id, 0, count, slots) + dealt_slots(topic_id, count, count + more, slots)
    assert dealt == dealt_slots(topic_id, 0, count + more, slots)
    counts = Counter(dealt)
    assert max(counts.values()) - min(counts[slot] for slot in range(slots)) <= 1


def test_a_record_of_a_node_alone_is_as_it_always_was() -> None:
    assert record_of(b"\1" * 16, "days", [1, 2], {}, [0, 0]) == record_of(b"\1" * 16, "days", [1, 2], {}, ())
    assert json.dumps(record_of(b"\1" * 16, "days", [1], {}, ())) == (
        '{"id": "' + "01" * 16 + '", "group": "days", "partitions": [1], "config": {}}'
    )


def test_a_topic_spreads_over_the_slots_and_is_the_same_after_a_replay() -> None:
    scene = Scene()
    topic = scene.create("orders", 4)
    begin = GROUPS.index(topic.partitions[0].group)
    assert [partition.group for partition in topic.partitions] == [GROUPS[(begin + each) % 3] for each in range(4)]
    assert {partition.group: partition.standing for partition in topic.partitions} == scene.standings
    grown: list[HutongError | None] = []
    scene.topics.add_partitions(topic, 6, grown.append)
    altered: list[HutongError | None] = []
    scene.topics.alter(topic, {"retention.ms": "1000"}, altered.append)
    assert (grown, altered) == ([None], [None])
    groups = [partition.group for partition in topic.partitions]
    assert Counter(groups) == dict.fromkeys(GROUPS, 2)
    again = Scene()
    for key, value in scene.log.records:
        again.topics.replay(key, value)
    replayed = again.topics.get("orders")
    assert replayed is not None
    assert [partition.group for partition in replayed.partitions] == groups
    assert replayed.log_ids == topic.log_ids
    assert dict(replayed.groups()) == {
        group: [log_id for log_id, own in zip(topic.log_ids, groups, strict=True) if own == group] for group in GROUPS
    }


def test_topics_with_one_partition_spread_as_well() -> None:
    scene = Scene()
    used = Counter(scene.create(f"topic-{number}", 1).partitions[0].group for number in range(60))
    assert set(used) == set(GROUPS)


def test_a_deletion_is_written_by_leaders_alone() -> None:
    scene = Scene()
    topic = scene.create("orders", 3)
    for group, log_ids in topic.groups():
        for log_id in log_ids:
            scene.stages[group].append(log_id, b"v")
            scene.stages[group].settle()
    told: list[bool] = []
    scene.topics.delete(topic, lambda error: told.append(error is None))
    assert told == [True]
    assert {group: len(journal.log_ids()) for group, journal in scene.journals.items()} == {
        "days": 0,
        "days-1": 0,
        "days-2": 1,
    }
    (left,) = scene.topics.orphans_of("days-2")
    assert left in topic.log_ids
    scene.journals["days-2"].log(left + 1_000)
    assert scene.topics.orphans_of("days-2") == [left], "a later one may be of a topic that is not known yet"


def test_partitions_get_the_logs_of_a_journal_that_was_opened_anew() -> None:
    scene = Scene()
    topic = scene.create("orders", 3)
    partition = next(each for each in topic.partitions if each.group == "days-1")
    others = [each.log for each in topic.partitions if each is not partition]
    stage = scene.stages["days-1"]
    stage.append(partition.log.partition_id, b"v")
    stage.settle()
    called: list[str] = []
    partition.log.watch(lambda: called.append("old"))
    stage.close()
    scene.journals["days-1"] = stage.open()
    version = scene.topics.version
    scene.topics.rebind("days-1")
    assert partition.log is stage.journal.log(partition.log.partition_id)
    assert partition.log.end_offset == 1
    assert partition.log.roll_bytes == others[0].roll_bytes, "it goes by the settings of the topic"
    assert called == ["old"]
    assert scene.topics.version > version, "fast paths end"
    assert [each.log for each in topic.partitions if each is not partition] == others


def test_who_waits_for_records_hears_when_another_node_leads() -> None:
    scene = Scene()
    topic = scene.create("orders", 3)
    called: list[str] = []
    for partition in topic.partitions:
        partition.log.watch(lambda group=partition.group: called.append(group))  # type: ignore[misc]
    version = scene.topics.version
    scene.topics.standing_changed("days")
    assert (called, scene.topics.version) == ([], version + 1), "still led here"
    scene.standings["days"].is_led_here = False
    scene.topics.standing_changed("days")
    assert called == ["days"]


def test_a_node_alone_leads_everything_in_epoch_0() -> None:
    standings = standings_alone(DATA_GROUPS, 7)
    assert {(each.leader, each.leader_epoch, each.is_led_here) for each in standings.values()} == {(7, 0, True)}
    assert {(each.replicas, each.in_sync) for each in standings.values()} == {((7,), (7,))}
