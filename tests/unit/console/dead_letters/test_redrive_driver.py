"""Redrives by real clients against a real node: exactly once through its kill, through rivals, and past refusals."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.unit.console.dead_letters.redrive_world import all_to_origin

from hutong.console.dead_letters.redriving.clients import RedriveClients, redrive_group
from hutong.console.dead_letters.redriving.driver import FENCED, RedriveDriver
from hutong.console.dead_letters.redriving.machine import RedriveMachine
from hutong.console.dead_letters.redriving.messages import (
    CancelRedrive,
    PauseRedrive,
    RedriveState,
    RedriveWish,
    ResumeRedrive,
)
from hutong.foundation.clock import SystemClock
from hutong.testing import EmbeddedNode, Topic

COUNT = 3_000


@pytest.fixture
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(topics=[Topic("dead", partitions=2), Topic("orders", partitions=3)]) as node:
        yield node


def properties(node: EmbeddedNode) -> dict[str, Any]:
    return {"bootstrap.servers": node.bootstrap, "log_level": 0}


HEADERS: list[tuple[str, str | bytes | None]] = [("hutong-dead-topic", b"orders"), ("own", b"1")]


def write_letters(node: EmbeddedNode, count: int = COUNT, transactional_id: str | None = None) -> None:
    producer = Producer({**properties(node), "linger.ms": 20, "transactional.id": transactional_id})
    if transactional_id is not None:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(count):
        producer.produce("dead", b"%d" % number, b"k%d" % number, headers=HEADERS)
    producer.flush()
    if transactional_id is not None:
        producer.commit_transaction()


def driver(node: EmbeddedNode, wish: RedriveWish) -> RedriveDriver:
    clients = RedriveClients(properties(node), "dead", is_dry=wish.is_dry)
    return RedriveDriver(RedriveMachine(wish), clients, SystemClock(), on_a_thread)


async def on_a_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call)


def run(node: EmbeddedNode, wish: RedriveWish) -> RedriveMachine:
    made = driver(node, wish)
    asyncio.run(made.run())
    return made.machine


async def until(made: RedriveDriver, is_so: Callable[[], bool]) -> None:
    while not is_so():
        await made.next_change()


def counts(node: EmbeddedNode, topic: str = "orders") -> Counter[bytes]:
    return Counter(record.value or b"" for record in node.records(topic))


def test_letters_come_back_once_as_they_were(node: EmbeddedNode) -> None:
    write_letters(node)
    machine = run(node, all_to_origin())
    assert (machine.state, machine.tally.sent, machine.remaining) == (RedriveState.DONE, {"orders": COUNT}, 0)
    found = node.records("orders")
    assert Counter(record.value for record in found).most_common(1)[0][1] == 1
    assert len(found) == COUNT
    way = found[0].header("hutong-redriven-from")
    assert way is not None
    assert way.startswith(b"dead/")
    assert [name for name, _ in found[0].headers] == ["own", "hutong-redriven-from"]
    assert run(node, all_to_origin()).tally.sent_count == 0


def test_letters_of_transactions_leave_nothing_behind(node: EmbeddedNode) -> None:
    write_letters(node, 50, "with-markers")
    assert run(node, all_to_origin()).tally.sent == {"orders": 50}
    again = run(node, all_to_origin(RedriveWish("dead", is_dry=True)))
    assert (again.tally.read, again.remaining) == (0, 0)


def test_chosen_letters_and_then_all(node: EmbeddedNode) -> None:
    write_letters(node, 100)
    chosen = {0: frozenset({1, 3}), 1: frozenset({0})}
    assert run(node, all_to_origin(RedriveWish("dead", chosen=chosen))).tally.sent == {"orders": 3}
    assert run(node, all_to_origin()).tally.sent == {"orders": 97}
    assert set(counts(node).values()) == {1}


def test_a_node_that_is_killed_half_way_doubles_nothing(node: EmbeddedNode) -> None:
    write_letters(node)

    async def redrive() -> RedriveMachine:
        made = driver(node, all_to_origin(RedriveWish("dead", rate_per_s=500)))
        running = asyncio.ensure_future(made.run())
        await until(made, lambda: made.machine.tally.sent_count >= 500)
        await on_a_thread(node.kill)
        await on_a_thread(node.restart)
        await until(made, lambda: made.machine.tally.sent_count >= 1_000)
        made.handle(CancelRedrive())
        await running
        return made.machine

    machine = asyncio.run(redrive())
    assert machine.state is RedriveState.CANCELLED
    assert run(node, all_to_origin()).tally.sent_count == COUNT - machine.tally.sent_count
    assert set(counts(node).values()) == {1}
    assert len(counts(node)) == COUNT


def test_a_second_redrive_takes_over_from_the_first(node: EmbeddedNode) -> None:
    write_letters(node)

    async def both() -> tuple[RedriveMachine, RedriveMachine]:
        first = driver(node, all_to_origin(RedriveWish("dead", rate_per_s=500)))
        running = asyncio.ensure_future(first.run())
        await until(first, lambda: first.machine.tally.sent_count >= 500)
        first.handle(PauseRedrive())
        second = driver(node, all_to_origin())
        await second.run()
        first.handle(ResumeRedrive(SystemClock().monotonic_ms()))
        await running
        return first.machine, second.machine

    first, second = asyncio.run(both())
    assert (first.state, first.problem) == (RedriveState.FAILED, FENCED)
    assert first.tally.sent_count + second.tally.sent_count == COUNT
    assert set(counts(node).values()) == {1}


def test_a_letter_that_is_too_large_for_its_topic_stays(node: EmbeddedNode) -> None:
    node.create_topic("other", config={"max.message.bytes": "5000"})
    write_letters(node, 20)
    producer = Producer(properties(node))
    producer.produce("dead", b"large" * 2_000, headers=HEADERS)
    producer.flush()
    machine = run(node, RedriveWish("dead", {"orders": "other"}))
    assert (machine.state, machine.tally.sent, machine.tally.left_count) == (RedriveState.DONE, {"other": 20}, 1)
    assert set(counts(node, "other").values()) == {1}


def test_progress_of_others_is_not_trusted(node: EmbeddedNode) -> None:
    write_letters(node, 5)
    consumer = Consumer({**properties(node), "group.id": redrive_group("dead")})
    consumer.commit(offsets=[TopicPartition("dead", 0, 1, "of somebody else")], asynchronous=False)
    consumer.close()
    machine = run(node, all_to_origin())
    assert machine.state is RedriveState.FAILED
    assert "of somebody else" in (machine.problem or "")
    assert not counts(node)


def test_a_topic_that_is_not_there_is_refused(node: EmbeddedNode) -> None:
    node.delete_topic("dead")
    machine = run(node, all_to_origin())
    assert (machine.state, "nknown topic" in (machine.problem or "")) == (RedriveState.FAILED, True)
    assert "dead" not in node.topics()
