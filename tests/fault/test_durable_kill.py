"""Consumers of a durable address that are killed under load: every message is handled, or given up where it must be.

TEST_KILL_ROUNDS says how often a process is killed (2 by default).
"""

import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.raw_client import create_topic
from tests.support.durable import (
    PublishingLoad,
    Verdict,
    Worker,
    dead_letters,
    handled_count,
    judge,
    read_diary,
    sometimes_failing,
    wait_for_all,
)
from tests.support.node import Node
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1_200)]
ROUNDS = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
PARTITIONS = 4
HANDLED_PER_ROUND = 1_000 if ROUNDS > 2 else 300
PER_SECOND = 300  # a partition waits for what fails, so one with the keys of those gets no further than about 250
TOPIC, GROUP = "orders", "billing"
RETRY = {"attempts": 4, "first_delay": 0.02}
DEADLINE_S = 120.0
PAUSE = threading.Event()  # never set


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        create_topic(running.address, TOPIC, partitions=PARTITIONS, records=0)
        yield running


def worker(node: Node, name: str = "worker", **options: Any) -> Worker:
    more = {"retry": RETRY, "group": GROUP, **options}
    return Worker(node.folder, name, address=node.address, topic=TOPIC, **more)


def publishing(node: Node) -> PublishingLoad:
    return PublishingLoad(node.address, TOPIC, per_second_max=PER_SECOND)


def wait_for_handled(process: Worker, more: int) -> None:
    wanted = handled_count(process.diary_path) + more
    until(
        lambda: bool(PAUSE.wait(0.02)) or handled_count(process.diary_path) >= wanted,
        deadline_s=DEADLINE_S,
        what=f"{more} more handled ({process.process.log_tail()})",
    )


def verdict(node: Node, load: PublishingLoad, process: Worker) -> Verdict:
    return judge(
        load.stored,
        sometimes_failing,
        read_diary(process.diary_path),
        dead_letters(node.address, f"{TOPIC}.{GROUP}.dead"),
        attempts=4,
        group=GROUP,
        first_delay_ms=20,
    )


def test_every_message_is_handled_though_its_consumer_is_killed(node: Node) -> None:
    begun = time.monotonic()
    with worker(node) as process:
        with publishing(node) as load:
            for number in range(ROUNDS):
                wait_for_handled(process, HANDLED_PER_ROUND * (1 + number % 3))
                process.kill()
                process.start()
        wait_for_all(process.diary_path, load.stored, sometimes_failing, DEADLINE_S)
        assert process.stop() == 0
    found = verdict(node, load, process)
    print(f"{ROUNDS} kills: {found}, {time.monotonic() - begun:.0f} s")
    assert load.failed == []
    assert found.problems == []
    assert found.messages >= ROUNDS * HANDLED_PER_ROUND / 2
    assert found.lives == ROUNDS + 1
    assert found.dead > 0


@pytest.mark.thorough
def test_one_of_two_is_killed_and_the_other_takes_over(node: Node) -> None:
    with worker(node, "first") as first, worker(node, "second") as second, publishing(node) as load:
        for process in [first, second] * max(1, ROUNDS // 2):
            wait_for_handled(process, HANDLED_PER_ROUND)
            process.kill()
            wait_for_handled(process, HANDLED_PER_ROUND)  # by the other one
            process.start()
        load.__exit__(None, None, None)
        wait_for_all(first.diary_path, load.stored, sometimes_failing, DEADLINE_S)
        assert first.stop() == 0
        assert second.stop() == 0
    found = verdict(node, load, first)
    print(found)
    assert found.problems == []


@pytest.mark.thorough
def test_the_checker_finds_what_a_careless_consumer_loses(node: Node) -> None:
    """Shows that the tests above can fail: who commits what has merely arrived loses messages, and that is found."""
    with worker(node, careless=True) as process:
        with PublishingLoad(node.address, TOPIC, per_second_max=3_000) as load:
            for _ in range(5):
                wait_for_handled(process, HANDLED_PER_ROUND // 3)
                process.kill()
                process.start()
        wait_for_all(process.diary_path, load.stored, sometimes_failing, 8)  # what is lost does not come
    lost = [problem for problem in verdict(node, load, process).problems if "was lost" in problem]
    assert lost, "five kills of a careless consumer lost nothing"
