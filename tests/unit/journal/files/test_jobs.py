"""A journal's blocking work: what waits for what, and what a stalled disk can hold."""

import pytest
from tests.unit.journal.stage import Steps

from hutong.foundation.errors import LimitExceeded
from hutong.journal.files.jobs import Jobs


class Scene:
    def __init__(self) -> None:
        self.shared, self.reads, self.flushes = Steps(), Steps(), Steps()
        self.jobs = Jobs(self.shared, self.reads, self.flushes)
        self.told: list[object] = []

    def submit(self, *names: str) -> None:
        for name in names:
            self.jobs.submit(lambda name=name: name, self.told.append)  # type: ignore[misc]


def test_a_journal_has_one_piece_of_other_work_on_the_shared_workers() -> None:
    scene = Scene()
    scene.submit("checkpoint", "prepare", "unlink")
    assert len(scene.shared.waiting) == 1
    assert scene.shared.work()
    assert not scene.shared.waiting, "the next one comes when this one has been told"
    while scene.shared.tell() or scene.shared.work():
        pass
    assert scene.told == ["checkpoint", "prepare", "unlink"]
    assert len(scene.jobs) == 0


def test_flushes_and_reads_wait_for_nothing_else() -> None:
    scene = Scene()
    scene.submit("stalled", "queued")
    scene.jobs.submit_flush(lambda: "flush", scene.told.append)
    scene.jobs.submit_read(lambda: "read", scene.told.append)
    for lane in (scene.flushes, scene.reads):
        assert lane.work()
        assert lane.tell()
    assert scene.told == ["flush", "read"]
    assert len(scene.jobs) == 2


def test_idle_is_when_the_queue_is_empty_too() -> None:
    scene = Scene()
    scene.submit("one", "two")
    scene.jobs.when_idle(lambda: scene.told.append("idle"))
    while scene.shared.work() and scene.shared.tell():
        pass
    assert scene.told == ["one", "two", "idle"]


def test_work_that_brings_more_work_goes_on() -> None:
    scene = Scene()
    scene.jobs.submit(lambda: "first", lambda _: scene.submit("second"))
    while scene.shared.work() and scene.shared.tell():
        pass
    assert scene.told == ["second"]


def test_an_abandoned_journal_does_no_more() -> None:
    scene = Scene()
    scene.submit("one", "two")
    scene.jobs.abandon()
    scene.jobs.when_idle(lambda: scene.told.append("idle"))
    while scene.shared.work() and scene.shared.tell():
        pass
    assert scene.told == ["idle"]


def test_whoever_is_refused_a_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.submit("one", "two")
    refusal = LimitExceeded("pending_work_max", 1)

    def refuse(_work: object, _then: object) -> None:
        raise refusal

    scene.shared.work()
    monkeypatch.setattr(scene.shared, "submit", refuse)
    scene.shared.tell()
    assert scene.told == ["one", refusal]
    assert len(scene.jobs) == 0
