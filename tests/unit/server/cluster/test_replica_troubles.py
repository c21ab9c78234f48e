"""A node that is short of space says so to its controller, and when it has had space for a while."""

from collections.abc import Callable
from typing import Any, cast

from hutong.cluster.driver import ClusterDriver
from hutong.cluster.questions import decode_short
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import DiskFull, HutongError, OwnerGone, StorageShortage
from hutong.foundation.timers import TimerWheel
from hutong.journal.journal import Journal
from hutong.server.cluster.control import ClusterControl
from hutong.server.cluster.replica_troubles import SPACE_MS, TOLD_AGAIN_MS, ReplicaTroubles


class Node:
    """Node 1, with one journal, and node 2 as its controller: what that hears. It is driver, control and replica."""

    node, incarnation, controller, failure = 1, 10, None, None
    on_controller: Callable[[], None]

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool]] = []
        self.shortage: StorageShortage | None = None
        self.is_deaf = False  # the controller does not answer
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        self.own = self.journal = self
        self.replicas = {"days": self}
        self.troubles = ReplicaTroubles(
            cast(ClusterDriver, _Driver(self)), cast(ClusterControl, self), self.clock, self.wheel
        )
        self.troubles.watch("days", cast(Journal, self))

    def on_shortage(self, callback: Callable[[StorageShortage | None], None]) -> None:
        self.changed = callback

    def ask(self, question: Any, _timeout_ms: int, then: Callable[[object], None]) -> None:
        if self.is_deaf:
            then(OwnerGone("no controller"))
            return
        self.heard.append(decode_short(question))
        then(question)

    def set_full(self, *, is_full: bool) -> None:
        self.shortage = DiskFull("no space") if is_full else None
        self.changed(self.shortage)

    def wait(self, milliseconds: int) -> None:
        for _ in range(0, milliseconds, 100):
            self.clock.advance(100)
            self.wheel.advance(self.clock.monotonic_ms())


class _Driver:
    controller = 2

    def __init__(self, node: Node) -> None:
        self.own = node
        self.replicas: dict[str, Any] = node.replicas


def test_a_shortage_is_over_when_there_was_space_for_a_while() -> None:
    node = Node()
    node.set_full(is_full=True)
    assert node.heard == [("days", True)]
    node.wait(3 * SPACE_MS)
    node.set_full(is_full=False)
    node.wait(SPACE_MS // 2)
    node.set_full(is_full=True)
    node.set_full(is_full=False)
    node.wait(SPACE_MS - 200)
    assert node.heard == [("days", True)]
    node.wait(400)
    assert node.heard == [("days", True), ("days", False)]


def test_a_new_controller_hears_of_shortages_and_one_that_did_not_hear_is_told_again() -> None:
    node = Node()
    node.is_deaf = True
    node.set_full(is_full=True)
    node.is_deaf = False
    node.wait(TOLD_AGAIN_MS)
    assert node.heard == [("days", True)]
    node.on_controller()
    assert node.heard == [("days", True)] * 2


def test_a_shortage_of_something_else_is_not_told() -> None:
    node = Node()
    node.changed(StorageShortage("no file is left"))
    node.changed(None)
    node.on_controller()
    node.wait(2 * SPACE_MS)
    assert node.heard == []


def test_a_replica_that_cannot_be_opened_again_has_no_space() -> None:
    node = Node()
    node.set_full(is_full=True)
    node.set_full(is_full=False)
    failure: HutongError | None = DiskFull("no space")
    node.failure = failure  # type: ignore[assignment]
    node.wait(2 * SPACE_MS)
    assert node.heard == [("days", True)]
