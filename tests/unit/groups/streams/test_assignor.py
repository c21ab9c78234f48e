"""The assignor of tasks: each active once, even loads, sticky, standbys on other processes; for all groups."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.groups.streams.assignor import Runner, Share, assign

COUNTS = st.dictionaries(st.sampled_from(("0", "1", "2")), st.integers(0, 7), min_size=1)


@st.composite
def workers(draw: st.DrawFn) -> dict[str, Runner]:
    """Members with any history, be it one that cannot have been."""
    count = draw(st.integers(1, 7))
    tasks = st.frozensets(st.tuples(st.sampled_from(("0", "1", "gone")), st.integers(0, 8)), max_size=12)
    return {
        f"m{number}": Runner(draw(st.sampled_from(("p", "q", "r", "s"))), draw(tasks), draw(tasks))
        for number in range(count)
    }


def again(given_workers: dict[str, Runner], shares: dict[str, Share]) -> dict[str, Runner]:
    """The members after they have taken their tasks."""
    return {
        name: Runner(given_workers[name].process_id, frozenset(share.active), frozenset(share.standby))
        for name, share in shares.items()
        if name in given_workers
    }


@given(workers(), COUNTS, st.integers(0, 2))
def test_every_task_is_active_once_and_loads_are_even(
    members: dict[str, Runner], counts: dict[str, int], standbys: int
) -> None:
    shares = assign(members, counts, {"0", "2"}, standbys)
    tasks = sorted((name, index) for name, count in counts.items() for index in range(count))
    assert sorted(task for share in shares.values() for task in share.active) == tasks
    loads = [len(share.active) for share in shares.values()]
    assert max(loads) - min(loads) <= 1
    assert shares == assign(members, counts, {"0", "2"}, standbys), "the same input gives the same tasks"


@given(workers(), COUNTS, st.integers(0, 2))
def test_standbys_are_as_many_as_processes_allow_and_nowhere_twice(
    members: dict[str, Runner], counts: dict[str, int], standbys: int
) -> None:
    shares = assign(members, counts, {"0", "2"}, standbys)
    processes = {worker.process_id for worker in members.values()}
    for name, count in counts.items():
        for index in range(count):
            task = (name, index)
            homes = [members[member].process_id for member, share in shares.items() if task in share.active]
            homes += [members[member].process_id for member, share in shares.items() if task in share.standby]
            assert len(homes) == len(set(homes)), "a process has one folder for a task"
            expected = 1 + (min(standbys, len(processes) - 1) if name in ("0", "2") else 0)
            assert len(homes) == expected


@given(workers(), COUNTS, st.integers(0, 2))
def test_nothing_moves_without_a_reason(members: dict[str, Runner], counts: dict[str, int], standbys: int) -> None:
    first = assign(members, counts, {"0"}, standbys)
    settled = again(members, first)
    second = assign(settled, counts, {"0"}, standbys)
    assert {name: share.active for name, share in first.items()} == {
        name: share.active for name, share in second.items()
    }


@given(workers(), COUNTS)
def test_of_a_member_that_leaves_only_its_own_tasks_move(members: dict[str, Runner], counts: dict[str, int]) -> None:
    first = assign(members, counts, (), 0)
    settled = again(members, first)
    if len(settled) == 1:
        return
    gone = settled.pop("m0")
    second = assign(settled, counts, (), 0)
    for name, worker in settled.items():
        assert worker.active <= second[name].active
    assert gone.active <= {task for share in second.values() for task in share.active}


def test_an_orphaned_task_goes_where_its_state_is() -> None:
    members = {
        "a": Runner("p", frozenset({("0", 0)}), frozenset({("0", 2)})),
        "b": Runner("q", frozenset({("0", 1)})),
        "c": Runner("r", frozenset({("0", 3)})),
    }
    shares = assign(members, {"0": 4}, {"0"}, 1)
    assert ("0", 2) in shares["a"].active


def test_a_task_stays_in_its_process_when_a_thread_ends() -> None:
    members = {
        "a": Runner("p", frozenset({("0", 0), ("0", 1)})),
        "b": Runner("q"),
    }
    shares = assign({"a2": Runner("p"), **members}, {"0": 3}, {"0"}, 0)
    assert shares["a"].active | shares["a2"].active >= {("0", 0), ("0", 1)}


def test_nobody_gets_nothing() -> None:
    assert assign({}, {"0": 3}, {"0"}, 2) == {}


def test_what_a_member_keeps_is_of_all_subtopologies() -> None:
    everything = frozenset((name, index) for name in ("0", "1") for index in range(4))
    shares = assign({"a": Runner("p", everything), "b": Runner("q")}, {"0": 4, "1": 4}, (), 0)
    assert sorted(name for name, _ in shares["a"].active) == ["0", "0", "1", "1"]
