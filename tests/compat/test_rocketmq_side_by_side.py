"""The same programs of RocketMQ's Java client against RocketMQ 5.5 and against a node: what they print is compared.

A field that differs is in `DIFFERENCES`, with its reason. Skips where the script that starts RocketMQ is not there.
"""

import pathlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bench.processes import ReadyProcess
from bench.targets import free_port
from tests.support.rocketmq import NEW, PEER, RocketPeer

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.thorough, pytest.mark.timeout(400)]
TOPIC: Final = "Side"
SENT: Final = 1 + 1 + 4 + 3 + 1 + 5
NAMES: Final = frozenset(("id", "stored", "born", "host", "broker"))
"""Fields that name a server, a time, or a message by both."""
DIFFERENCES: Final = {
    "MSG_REGION": "RocketMQ adds where a message was stored to its properties, for its tracing.",
    "TRACE_ON": "The same.",
    "DELAY": "RocketMQ leaves in a delivered message how it waited; here it comes as it was sent.",
    "REAL_TOPIC": "The same.",
    "REAL_QID": "The same.",
}
Printed = list[dict[str, Any]]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not pathlib.Path(PEER).exists():
        pytest.skip("the script that starts RocketMQ is not there")
    log = tmp_path_factory.mktemp("rocketmq") / "log"
    words = [PEER, "start", "--port", str(free_port()), "--broker-port", str(free_port()), "--flush", "sync"]
    with ReadyProcess(words, log_path=str(log)) as process:
        yield process.fields["0"]


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as node:
        yield node.rocketmq or ""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(NEW, tmp_path_factory.mktemp("offsets"))


@pytest.fixture(scope="module")
def produced(theirs: str, ours: str, java: RocketPeer) -> list[Printed]:
    """What both printed of the messages that were sent in all ways."""
    return [java.run("produce", server, TOPIC) for server in (theirs, ours)]


def without_names(printed: Printed, *further: str) -> list[dict[str, Any]]:
    """The lines without what must differ, in an order of their own: consumers have several threads."""
    lines = []
    for line in printed:
        kept = {name: value for name, value in line.items() if name not in NAMES and name not in further}
        if "properties" in kept:
            kept["properties"] = {name: value for name, value in kept["properties"].items() if name not in DIFFERENCES}
        lines.append(kept)
    return sorted(lines, key=str)


def test_sends_are_answered_alike(produced: list[Printed]) -> None:
    # A client begins with any queue, so that offsets differ, except of messages that name theirs.
    assert without_names(produced[0], "queue", "offset") == without_names(produced[1], "queue", "offset")
    ordered = [[(each["queue"], each["way"]) for each in lines if each["way"] == "ordered"] for lines in produced]
    assert ordered[0] == ordered[1]


@pytest.mark.parametrize("kind", ["push", "orderly", "litepull", "broadcast"])
def test_messages_come_alike(theirs: str, ours: str, java: RocketPeer, produced: list[Printed], kind: str) -> None:
    assert produced
    group = f"{kind}-side"
    found = [java.run(kind, server, TOPIC, group, "*", str(SENT)) for server in (theirs, ours)]
    assert without_names(found[0], "queue", "offset") == without_names(found[1], "queue", "offset")


def test_filters_leave_out_the_same(theirs: str, ours: str, java: RocketPeer, produced: list[Printed]) -> None:
    assert produced
    found = [java.run("push", server, TOPIC, "red-side", "red || none", "5") for server in (theirs, ours)]
    assert without_names(found[0], "queue", "offset") == without_names(found[1], "queue", "offset")


def test_a_delayed_message_comes_alike(theirs: str, ours: str, java: RocketPeer) -> None:
    found = []
    for server in (theirs, ours):
        (sent,) = java.run("delay", server, "SideDelay", "1")
        assert sent["status"] == "SEND_OK"
        found.append(java.run("push", server, "SideDelay", "delay-side", "*", "1"))
    assert without_names(found[0], "queue", "offset") == without_names(found[1], "queue", "offset")


@pytest.mark.parametrize(("kind", "count"), [("retry", 2 * SENT), ("dead", SENT)])
def test_a_message_that_fails_comes_alike(
    theirs: str, ours: str, java: RocketPeer, produced: list[Printed], kind: str, count: int
) -> None:
    assert produced
    found = [java.run(kind, server, TOPIC, f"{kind}-side", "*", str(count)) for server in (theirs, ours)]
    both = [without_names(lines, "queue", "offset") for lines in found]
    for lines in both:
        for line in lines:
            # The id of the first life: a message's name.
            line["properties"].pop("ORIGIN_MESSAGE_ID", None)
    assert both[0] == both[1]
