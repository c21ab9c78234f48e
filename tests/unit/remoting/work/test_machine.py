"""The queue of an executor, as transcripts."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.remoting.work.machine import JobQueue


def test_jobs_begin_in_order_and_the_queue_is_bounded() -> None:
    queue: JobQueue[str] = JobQueue(workers=2, queue_max=2, wait_ms_max=None)
    assert [queue.offered(job, 0) for job in "abcde"] == [True, True, None, None, False]
    assert queue.refused_total == 1
    assert [queue.finished(), queue.finished(), queue.finished()] == ["c", "d", None]
    assert queue.running == 1
    assert queue.next_tick_ms() is None


def test_who_waits_too_long_is_taken_out_and_no_one_else() -> None:
    queue: JobQueue[str] = JobQueue(workers=1, queue_max=10, wait_ms_max=200)
    queue.offered("running", 0)
    assert queue.next_tick_ms() is None
    for at_ms, job in ((10, "a"), (20, "b"), (100, "c")):
        queue.offered(job, at_ms)
    assert queue.next_tick_ms() == 210
    assert queue.take_aged(209) == []
    assert queue.take_aged(220) == ["a", "b"]
    assert queue.next_tick_ms() == 300
    assert queue.finished() == "c"
    assert queue.next_tick_ms() is None
    assert queue.aged_total == 2


def test_an_end_takes_all_that_waits() -> None:
    queue: JobQueue[int] = JobQueue(1, 10, None)
    for job in range(4):
        queue.offered(job, 0)
    assert queue.take_all() == [1, 2, 3]
    assert queue.finished() is None


@given(st.lists(st.tuples(st.sampled_from(["offer", "finish", "age"]), st.integers(0, 50)), max_size=100))
def test_every_job_is_begun_refused_or_aged(script: list[tuple[str, int]]) -> None:
    queue: JobQueue[int] = JobQueue(2, 3, 100)
    offered = begun = refused = aged = finished = now_ms = 0
    for kind, passed_ms in script:
        now_ms += passed_ms
        if kind == "offer":
            verdict = queue.offered(offered, now_ms)
            offered += 1
            begun += verdict is True
            refused += verdict is False
        elif kind == "finish" and begun > finished:
            finished += 1
            begun += queue.finished() is not None
        elif kind == "age":
            aged += len(queue.take_aged(now_ms))
        queue.check_invariants()
        assert offered == begun + refused + aged + len(queue)
        assert queue.running == begun - finished
