"""Which transactional ids a worker takes: none that may hold what somebody wants."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.pipelines.sink.worker_ids import IDS_MAX, WorkerIds


def test_a_later_batch_of_the_same_query_takes_the_ids_again() -> None:
    ids = WorkerIds("w")
    assert [ids.take_id("q", batch) for batch in (0, 0, 1, 1, 1, 2)] == ["w-0", "w-1", "w-0", "w-1", "w-2", "w-0"]


def test_a_batch_that_comes_again_leaves_them_alone() -> None:
    ids = WorkerIds("w")
    assert [ids.take_id("q", batch) for batch in (3, 3, 2)] == ["w-0", "w-1", "w-2"]


@given(taken=st.lists(st.tuples(st.sampled_from(["q", "r"]), st.integers(0, 5)), max_size=60))
def test_no_id_is_taken_from_another_query_or_a_batch_not_older(taken: list[tuple[str, int]]) -> None:
    ids, last = WorkerIds("w"), dict[str, tuple[str, int]]()
    for query, batch in taken:
        one = ids.take_id(query, batch)
        if one in last:
            assert last[one][0] == query
            assert last[one][1] < batch
        last[one] = query, batch


def test_what_is_remembered_is_bounded() -> None:
    ids = WorkerIds("w")
    taken = {ids.take_id(f"batch-{number}", 0) for number in range(2 * IDS_MAX)}
    assert len(taken) == 2 * IDS_MAX
    assert len(ids._used) == IDS_MAX
