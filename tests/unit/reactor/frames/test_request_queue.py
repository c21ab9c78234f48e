"""What is received and not begun: when nobody is read for it, and who is told that it goes on."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.frames.request_queue import RequestQueue


def test_nobody_is_read_while_too_many_requests_wait() -> None:
    queue = RequestQueue(requests_max=10)
    told: list[str] = []
    queue.change(9, 900, 0)
    assert not queue.is_full
    queue.change(1, 100, 0)
    assert queue.is_full
    wakes = {"a": told.clear, "b": lambda: told.append("b")}
    for name in ("a", "b", "a"):
        assert not queue.may_read(wakes[name])
    queue.change(-1, -100, 5)
    assert told == ["b"]
    assert (queue.is_full, queue.full_total, queue.requests_max_seen) == (False, 1, 10)


def test_one_is_read_for_each_request_that_goes_so_that_who_fills_it_keeps_nobody_out() -> None:
    queue = RequestQueue(requests_max=10)
    told: list[str] = []
    queue.change(50, 5_000, 0)
    wakes = [lambda name=name: told.append(name) for name in "abcd"]
    assert [queue.may_read(wake) for wake in wakes] == [False] * 4
    queue.change(-2, -200, 1)
    assert (told, queue.is_full) == (["a", "b"], True)
    assert queue.may_read(wakes[0]), "once"
    assert not queue.may_read(wakes[0])
    queue.change(-2, -200, 2)
    assert told == ["a", "b", "c", "d"], "who waits longest"
    queue.change(3, 300, 3)
    queue.change(-49, -4_900, 4)
    assert (told, queue.is_full) == (["a", "b", "c", "d", "a"], False)
    queue.check_invariants()


def test_how_long_all_bytes_were_in_use() -> None:
    queue = RequestQueue(bytes_max=1_000)
    queue.change(0, 1_000, 100)
    assert (queue.is_full, queue.depleted_ms(350)) == (True, 250)
    queue.change(0, 500, 400)
    queue.change(0, -600, 600)
    assert (queue.is_full, queue.depleted_ms(9_000)) == (False, 500)
    queue.change(0, 200, 1_000)
    queue.change(0, -200)  # a connection ended: the time of that is not told, the next event has it
    assert queue.depleted_ms(9_000) == 500


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 200), st.integers(0, 99)), max_size=50))
def test_it_is_full_just_while_a_bound_is_reached(steps: list[tuple[int, int, int]]) -> None:
    queue = RequestQueue(requests_max=20, bytes_max=500)
    kept: list[tuple[int, int]] = []
    for now_ms, (requests, size, choice) in enumerate(steps):
        if kept and choice % 2:
            gone = kept.pop(choice % len(kept))
            queue.change(-gone[0], -gone[1], now_ms)
        else:
            kept.append((requests, size))
            queue.change(requests, size, now_ms)
        if queue.is_full:
            queue.may_read(lambda: None)
        queue.check_invariants()
        assert (queue.requests, queue.bytes) == (sum(each[0] for each in kept), sum(each[1] for each in kept))
