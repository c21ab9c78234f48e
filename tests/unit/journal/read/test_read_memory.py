"""Memory of cold reads: given again when nobody looks at it, and never before."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.journal.read.read_memory import LARGE_BYTES, SMALL_BYTES, ReadMemory


def test_memory_is_given_again_once_its_views_are_gone() -> None:
    memory = ReadMemory()
    first = memory.lend(10)
    part = first[3:5]
    del first
    second = memory.lend(10)
    second[:2] = b"ab"
    assert bytes(part) == b"\0\0", "a view that is held is never written to"
    del part, second
    memory.lend(10)
    assert (memory.mapped_total, memory.reused_total) == (2, 1)


def test_a_small_read_does_not_hold_large_memory() -> None:
    memory = ReadMemory()
    assert len(memory.lend(LARGE_BYTES)) == LARGE_BYTES
    assert len(memory.lend(1)) == SMALL_BYTES
    assert len(memory.lend(LARGE_BYTES + 1)) == LARGE_BYTES + 1


@given(st.lists(st.tuples(st.integers(1, 3 * LARGE_BYTES), st.booleans()), max_size=30))
def test_what_is_kept_is_bounded_and_views_outlive_it(steps: list[tuple[int, bool]]) -> None:
    memory = ReadMemory(kept_bytes_max=4 * LARGE_BYTES)
    held: list[tuple[memoryview, bytes]] = []
    for number, (size, is_held) in enumerate(steps):
        view = memory.lend(size)
        assert len(view) >= size
        mark = b"%04d" % number if size >= 4 else b""
        view[: len(mark)] = mark
        if is_held:
            held.append((view, mark))
        del view
        assert memory.kept_bytes <= 4 * LARGE_BYTES
        assert all(bytes(kept[: len(mark)]) == mark for kept, mark in held)
