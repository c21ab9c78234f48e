"""Passes of connections whose answers are ready: all of them, in order, and not too long in one loop iteration."""

import asyncio
from collections.abc import Callable
from typing import cast

from hutong.reactor.connections.protocol import WAKEUPS_MS_MAX, ConnectionProtocol, Wakeups


class Scene:
    """A loop of which only `call_soon` is asked, and connections whose passes take a millisecond each."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.wakeups = Wakeups(cast(asyncio.AbstractEventLoop, self))
        self.now_ms = 1_000
        self.passes: list[int] = []
        self.failed: list[int] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def mark(self, number: int, *, fails: bool = False, marks: int | None = None) -> None:
        self.wakeups.mark(cast(ConnectionProtocol, Marked(self, number, fails, marks)))

    def iterate(self) -> int:
        """Run what is due in one loop iteration; the number of passes in it."""
        before, callbacks = len(self.passes), self.callbacks
        self.callbacks = []
        for callback in callbacks:
            callback()
        return len(self.passes) - before


class Marked:
    def __init__(self, scene: Scene, number: int, fails: bool, marks: int | None) -> None:
        self.scene, self.number, self.fails, self.marks = scene, number, fails, marks

    def run_pass(self) -> int:
        begun_ms = self.scene.now_ms
        self.scene.passes.append(self.number)
        self.scene.now_ms += 1
        if self.marks is not None:
            self.scene.mark(self.marks)
        if self.fails:
            raise ValueError("a fault of ours")
        return begun_ms

    def fail(self, _error: Exception) -> None:
        self.scene.failed.append(self.number)


def test_many_passes_are_spread_over_iterations_in_order() -> None:
    scene = Scene()
    for number in range(20):
        scene.mark(number)
    while scene.callbacks:
        assert len(scene.callbacks) == 1
        assert scene.iterate() <= WAKEUPS_MS_MAX + 2
    assert scene.passes == list(range(20))


def test_what_is_marked_meanwhile_comes_behind_what_is_left() -> None:
    scene = Scene()
    scene.mark(0, marks=100)
    for number in range(1, 10):
        scene.mark(number)
    while scene.callbacks:
        scene.iterate()
    assert scene.passes == [*range(10), 100]


def test_a_fault_ends_one_connection_and_no_other() -> None:
    scene = Scene()
    for number in range(10):
        scene.mark(number, fails=number % 3 == 0)
    while scene.callbacks:
        scene.iterate()
    assert (scene.passes, scene.failed) == (list(range(10)), [0, 3, 6, 9])
