"""Member ids that nobody uses: bounded for each client, and nobody's ids lapse for another client's."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.groups.classic.membership.pending_ids import PendingIds


def test_the_oldest_id_of_a_client_lapses_for_its_next() -> None:
    ids = PendingIds(10, 2, 100)
    assert ids.add("flood", "g1", "m1", 0) is None
    assert ids.add("other", "h", "n", 0) is None
    assert ids.add("flood", "g2", "m2", 0) is None
    assert ids.add("flood", "g3", "m3", 0) == ("g1", "m1")
    ids.discard("m2")
    assert ids.add("flood", "g4", "m4", 0) is None
    assert len(ids) == 3


def test_old_ids_make_room() -> None:
    ids = PendingIds(2, 2, 100)
    ids.add("a", "g", "m1", 0)
    ids.add("b", "g", "m2", 50)
    assert ids.add("c", "g", "m3", 99) == ("g", "m1")
    assert ids.add("d", "g", "m4", 150) is None
    ids.discard("m1")
    ids.check_invariants()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans(), st.integers(0, 40))))
def test_every_id_is_used_once_or_lapses(steps: list[tuple[str, int, bool, int]]) -> None:
    ids, now_ms = PendingIds(5, 3, 100), 0
    for number, (holder, group, is_used, passed_ms) in enumerate(steps):
        now_ms += passed_ms
        ids.add(holder, f"g{group}", f"m{number}", now_ms)
        if is_used:
            ids.discard(f"m{number}")
        ids.check_invariants()
