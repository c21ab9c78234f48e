"""Questions that are asked again: until there is an answer, for a time, and not while the node stops."""

from typing import Any

import pytest

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.server.cluster import asking_again
from hutong.server.cluster.asking_again import AskingAgain

AGAIN_MS, UNTIL_MS = 50, 1_000


class Scene:
    """One question to nobody, until there is an `answer`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.asking = AskingAgain(self.clock, self.wheel)
        self.answer: str | HutongError = Expired("nobody leads")
        self.attempts: list[int] = []
        self.outcomes: list[str | HutongError] = []

    def ask(self) -> None:
        self.asking.ask(
            self._attempt,
            lambda error: isinstance(error, Expired),
            again_ms=AGAIN_MS,
            until_ms=UNTIL_MS,
            then=self.outcomes.append,
        )

    def _attempt(self, then: Continuation[Any]) -> None:
        self.attempts.append(self.clock.monotonic_ms())
        then(self.answer)

    def wait(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 10):
            self.clock.advance(10)
            self.wheel.advance(self.clock.monotonic_ms())
        self.asking.waits.check_invariants()


def test_it_is_asked_again_until_it_is_answered() -> None:
    scene = Scene()
    scene.ask()
    scene.wait(120)
    assert (len(scene.attempts), scene.outcomes, len(scene.asking.waits)) == (3, [], 1)
    scene.answer = "here"
    scene.wait(50)
    assert scene.outcomes == ["here"]
    scene.wait(500)
    assert (len(scene.attempts), len(scene.asking.waits)) == (4, 0)


def test_the_last_outcome_counts_when_the_time_is_over() -> None:
    scene = Scene()
    scene.ask()
    scene.wait(2 * UNTIL_MS)
    assert scene.outcomes == [scene.answer]
    assert UNTIL_MS <= scene.attempts[-1] <= UNTIL_MS + 2 * AGAIN_MS


def test_a_final_refusal_is_the_answer() -> None:
    scene = Scene()
    scene.answer = OwnerGone("it is fenced")
    scene.ask()
    assert scene.outcomes == [scene.answer]


def test_a_node_that_stops_ends_all_questions_at_once() -> None:
    scene = Scene()
    scene.ask()
    scene.asking.close()
    scene.ask()
    assert [type(outcome) for outcome in scene.outcomes] == [OwnerGone, OwnerGone]
    scene.wait(UNTIL_MS)
    assert len(scene.attempts) == 2


def test_more_questions_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_again, "WAITS_MAX", 1)
    scene = Scene()
    scene.ask()
    scene.ask()
    assert [type(outcome) for outcome in scene.outcomes] == [LimitExceeded]
