"""Delays to a time by RocketMQ's own clients."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.golang import rocketmq_client
from tests.support.rocketmq import NEW, RocketPeer

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(120)]
SOURCE: Final = Path(__file__).parent / "java_rocketmq" / "DelayPeer.java"
ILLEGAL: Final = 13
ILLEGAL_OPERATION: Final = 604


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as running:
        running.create_topic("Times", partitions=2)
        running.create_topic("Recalls", partitions=1)
        yield running


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(NEW, tmp_path_factory.mktemp("offsets"), source=SOURCE)


def test_java_delays_to_a_time(node: EmbeddedNode, java: RocketPeer, tmp_path: Path) -> None:
    *sent, late = java.run("times", node.rocketmq or "", "Times", "1500")
    assert late["code"] == ILLEGAL
    assert [each["status"] for each in sent] == ["SEND_OK"] * 4
    found = {
        each["body"]: each
        for each in RocketPeer(NEW, tmp_path).run("push", node.rocketmq or "", "Times", "g", "*", "4")
    }
    assert found.keys() == {"until", "milliseconds", "seconds", "past"}
    ids = {each["body"]: each["id"] for each in sent}
    assert {body: each["id"] for body, each in found.items()} == ids
    for body, each in found.items():
        assert (each["tags"], each["keys"], each["times"]) == ("red", f"key-{body}", 0)
    assert "TIMER_OUT_MS" not in found["past"]["properties"]


def test_java_recalls_a_message(node: EmbeddedNode, java: RocketPeer, tmp_path: Path) -> None:
    # So long that the recall comes first also where everything is slow.
    recalled, kept, past, other = java.run("recall", node.rocketmq or "", "Recalls", "8000")
    assert recalled["recalled"] == recalled["id"]
    assert kept["status"] == "SEND_OK"
    assert (past["code"], other["code"]) == (ILLEGAL_OPERATION, ILLEGAL_OPERATION)
    (message,) = RocketPeer(NEW, tmp_path).run("push", node.rocketmq or "", "Recalls", "g", "*", "1")
    assert message["body"] == "kept"


@pytest.mark.thorough
def test_go_delays_a_message(node: EmbeddedNode) -> None:
    node.create_topic("Go", partitions=1)
    done = subprocess.run(
        [rocketmq_client(), node.rocketmq or "", "Go"], capture_output=True, text=True, check=True, timeout=100
    )
    late_ms = {body: int(late) for body, late in (line.split() for line in done.stdout.splitlines())}
    assert late_ms["level"] >= 1_000
    assert late_ms["time"] >= 1_500
