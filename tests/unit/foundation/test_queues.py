"""The bounded queue: never over its capacity, and one notice per crossing of a water mark."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.queues import BoundedQueue


def test_what_does_not_fit_is_refused_and_counted() -> None:
    queue: BoundedQueue[str] = BoundedQueue("requests", capacity=10)
    assert queue.offer("a", 6)
    assert not queue.offer("b", 5)
    assert queue.offer("c", 4)
    assert (queue.size, len(queue), queue.refused_total) == (10, 2, 1)
    assert [queue.take(), queue.take()] == ["a", "c"]
    with pytest.raises(IndexError):
        queue.take()


def test_each_crossing_is_told_once() -> None:
    notices: list[str] = []
    queue: BoundedQueue[int] = BoundedQueue(
        "bytes",
        capacity=10,
        high_water=4,
        low_water=1,
        on_high=lambda: notices.append("high"),
        on_low=lambda: notices.append("low"),
    )
    for number in range(6):
        queue.offer(number)
    assert notices == ["high"]
    while len(queue):
        queue.take()
    assert notices == ["high", "low"]
    assert not queue.is_high


def test_marks_must_make_sense() -> None:
    with pytest.raises(ValueError, match="water marks"):
        BoundedQueue("bytes", capacity=10, high_water=11)
    with pytest.raises(ValueError, match="no negative size"):
        BoundedQueue[int]("bytes", capacity=10).offer(1, -1)


@given(st.lists(st.none() | st.integers(0, 12), max_size=60), st.integers(1, 20))
def test_the_queue_keeps_order_bounds_and_its_word(script: list[int | None], capacity: int) -> None:
    state: list[bool] = [False]
    queue: BoundedQueue[int] = BoundedQueue(
        "property", capacity, on_high=lambda: state.append(True), on_low=lambda: state.append(False)
    )
    model: list[tuple[int, int]] = []
    for number, size in enumerate(script):
        if size is not None:
            fits = sum(s for _, s in model) + size <= capacity
            assert queue.offer(number, size) == fits
            if fits:
                model.append((number, size))
        elif model:
            assert queue.take() == model.pop(0)[0]
        assert queue.size == sum(s for _, s in model)
        assert queue.is_high == state[-1]
        assert all(a != b for a, b in pairwise(state))
