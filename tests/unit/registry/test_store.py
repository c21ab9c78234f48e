"""The topic of schemas in a log: what is applied, what is refused, and a log that is another one by now."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError, Refused
from hutong.journal.append.log_appends import Appended
from hutong.journal.read.runs import Views
from hutong.registry.records import RawRecord, schema_record
from hutong.registry.store import SchemaStore
from hutong.registry.values import NotRecorded, RegistryCode, SchemaText, SchemaVersion, UnknownOutcome
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_records, parse_batch_header


def schema(number: int, text: str = '"int"') -> RawRecord:
    return schema_record(SchemaVersion(f"s{number}", 1, number, SchemaText("AVRO", text)))


class Log:
    """Batches of one record, each in an epoch. What is behind `last_stable_offset` is not committed."""

    start_offset = 0

    def __init__(self) -> None:
        self.batches: list[tuple[RawRecord, int]] = []
        self.last_stable_offset = 0
        self.epoch = 1
        self.failure: HutongError | None = None

    @property
    def end_offset(self) -> int:
        return len(self.batches)

    def add(self, *records: RawRecord, is_committed: bool = True) -> None:
        self.batches += [(record, self.epoch) for record in records]
        self.last_stable_offset = len(self.batches) if is_committed else self.last_stable_offset

    def read(self, offset: int, _bytes_max: int, *, up_to: int) -> Views:
        found = []
        for place, ((key, value), epoch) in enumerate(self.batches[offset:up_to], offset):
            record = Record(timestamp_ms=1, key=key, value=value)
            found.append(memoryview(build_batch([record], base_offset=place, leader_epoch=epoch)))
        return Views(found, sum(map(len, found)))

    def aborted_between(self, _start: int, _end: int) -> list[tuple[int, int]]:
        return []

    def end_of_epoch(self, epoch: int, then: Callable[[tuple[int, int]], None]) -> None:
        known = max((each for _, each in self.batches if each <= epoch), default=-1)
        end = max((place + 1 for place, (_, each) in enumerate(self.batches) if each <= epoch), default=0)
        then((known, end))

    def append(self, batches: Any, _qos: object) -> Appended:
        ((batch, header),) = batches
        assert parse_batch_header(batch) == header
        base = self.end_offset
        self.add(*[(each.key or b"", each.value) for each in iterate_records(batch)], is_committed=False)
        return Appended(base, -1, 0, 1, False)

    def when_safe(self, _qos: object, then: Callable[[HutongError | None], None], _timeout_ms: int) -> None:
        if self.failure is None:
            self.last_stable_offset = self.end_offset
        then(self.failure)


class Scene:
    def __init__(self) -> None:
        self.log = Log()
        self.standing = SimpleNamespace(is_led_here=True, is_followed_here=False, leader=1, leader_epoch=1)
        self.partition: Any = SimpleNamespace(
            topic_name="_schemas",
            index=0,
            log=self.log,
            standing=self.standing,
            config=SimpleNamespace(min_insync_replicas=1),
            check_online=lambda: None,
            check_served=lambda: None,
        )
        topics = SimpleNamespace(partition=lambda _name, _index: self.partition)
        broker: Any = SimpleNamespace(topics=topics, clock=ManualClock(), cluster=SimpleNamespace())
        self.store = SchemaStore(broker, self._topic)

    async def _topic(self) -> Any:
        return SimpleNamespace(partitions=[self.partition])

    def lead(self, epoch: int) -> None:
        self.standing.leader_epoch = self.log.epoch = epoch

    @property
    def subjects(self) -> list[str]:
        return self.store.machine.subjects()


async def test_what_is_not_committed_is_not_applied() -> None:
    scene = Scene()
    scene.log.add(schema(1))
    scene.log.add(schema(2), is_committed=False)
    await scene.store.catch_up()
    assert scene.subjects == ["s1"]
    assert scene.store.is_current


async def test_a_writer_first_applies_all_that_its_log_has() -> None:
    scene = Scene()
    scene.log.add(schema(1))
    scene.log.add(schema(2), is_committed=False)  # of an earlier leader
    machine = await scene.store.settled()
    assert machine.last_id(".") == 2
    scene.log.add(schema(3), is_committed=False)
    scene.log.failure = Expired("late")
    with pytest.raises(Refused) as raised:
        await scene.store.settled()
    assert raised.value.code == RegistryCode.TIMED_OUT


async def test_an_append_is_applied_once_it_is_safe() -> None:
    scene = Scene()
    await scene.store.settled()
    await scene.store.append([schema(1), schema(2)])
    assert scene.subjects == ["s1", "s2"]


async def _others_write(scene: Scene) -> None:
    scene.log.add(schema(9))


async def _others_are_read(scene: Scene) -> None:
    scene.log.add(schema(9))
    await scene.store.catch_up()


async def _another_epoch(scene: Scene) -> None:
    scene.lead(2)


async def _no_lead(scene: Scene) -> None:
    scene.standing.is_led_here = False


@pytest.mark.parametrize("change", [_others_write, _others_are_read, _another_epoch, _no_lead])
async def test_a_decision_about_another_log_is_not_recorded(change: Callable[[Scene], Awaitable[None]]) -> None:
    scene = Scene()
    await scene.store.settled()
    await change(scene)
    before = scene.log.end_offset
    with pytest.raises(NotRecorded):
        await scene.store.append([schema(1)])
    assert scene.log.end_offset == before


async def test_an_append_that_fails_later_may_be_recorded() -> None:
    scene = Scene()
    await scene.store.settled()
    scene.log.failure = Expired("late")
    with pytest.raises(UnknownOutcome):
        await scene.store.append([schema(1)])
    # It is committed after all: the next writer has it.
    scene.log.failure = None
    assert (await scene.store.settled()).last_id(".") == 1


async def test_too_few_replicas_record_nothing() -> None:
    scene = Scene()
    await scene.store.settled()
    scene.partition.config.min_insync_replicas = 2
    scene.standing.in_sync, scene.standing.note_refusal = (1,), lambda: None
    with pytest.raises(Refused) as raised:
        await scene.store.append([schema(1)])
    assert (raised.value.code, scene.log.end_offset) == (RegistryCode.STORE, 0)


async def test_a_leader_whose_log_is_shorter_begins_anew() -> None:
    scene = Scene()
    scene.log.add(schema(1), schema(2))
    await scene.store.catch_up()
    scene.log.batches.pop()
    scene.log.last_stable_offset = 1
    scene.lead(2)
    await scene.store.catch_up()
    assert scene.subjects == ["s1"]


async def test_a_log_that_has_diverged_is_read_anew() -> None:
    scene = Scene()
    scene.log.add(schema(1), schema(2))
    await scene.store.catch_up()
    # An unclean leader lacked the second one, and has written others since.
    scene.log.batches.pop()
    scene.lead(2)
    scene.log.add(schema(3), schema(4))
    await scene.store.catch_up()
    assert scene.subjects == ["s1", "s3", "s4"]


async def test_a_clean_leader_is_read_on() -> None:
    scene = Scene()
    scene.log.add(schema(1))
    await scene.store.catch_up()
    machine = scene.store.machine
    scene.lead(2)
    scene.log.add(schema(2))
    await scene.store.catch_up()
    assert scene.store.machine is machine
    assert scene.subjects == ["s1", "s2"]


async def test_a_topic_that_was_made_anew_is_read_anew() -> None:
    scene = Scene()
    scene.log.add(schema(1))
    await scene.store.catch_up()
    other = Scene()
    other.log.add(schema(5))
    scene.partition = other.partition
    assert not scene.store.is_current
    await asyncio.gather(scene.store.catch_up(), scene.store.catch_up())
    assert scene.subjects == ["s5"]
