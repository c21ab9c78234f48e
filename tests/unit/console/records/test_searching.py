"""The machine of searches: rounds, matches, progress and ends, against looking at all records at once."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.records.made import record

from hutong.bus.durable.records import StoredRecord
from hutong.console.limits import SEARCH_HELD_BYTES_MAX
from hutong.console.records.searching.conditions import Conditions, TextCondition
from hutong.console.records.searching.machine import SearchMachine
from hutong.console.records.searching.patterns import compiled

NEEDLE = Conditions((TextCondition(compiled("needle", ignores_case=False, is_literal=True)),))


def log(partition: int, needles: list[bool], first: int = 0) -> list[StoredRecord]:
    return [
        record(first + place, b"needle" if hit else b"hay", partition=partition, timestamp_ms=10 * place + partition)
        for place, hit in enumerate(needles)
    ]


def search(machine: SearchMachine, logs: dict[int, list[StoredRecord]], batch: int = 7) -> list[StoredRecord]:
    """Read as a driver does, some records at a time."""
    found: list[StoredRecord] = []
    while not machine.is_ended:
        waiting = {
            place: [each for each in logs[place] if each.offset >= at] for place, (at, _) in machine.round().items()
        }
        while not machine.is_round_over:
            for place, records in waiting.items():
                part, waiting[place] = records[:batch], records[batch:]
                found += machine.receive(part)
                if not waiting[place]:
                    machine.reach_end(place)
                machine.check_invariants()
        found += machine.next_round()
        machine.check_invariants()
    return found


def test_the_oldest_come_first_and_progress_counts_offsets() -> None:
    logs = {0: log(0, [False] * 5 + [True]), 1: log(1, [True, False], first=100)}
    machine = SearchMachine(NEEDLE, {0: (0, 6), 1: (100, 102), 2: (5, 5)}, is_newest_first=False)
    assert machine.progress().offsets_total == 8
    found = machine.receive(logs[0][:3])
    progress = machine.progress()
    assert (found, progress.offsets_passed, progress.looked_at, progress.ended) == ([], 3, 3, None)
    found = machine.receive([*logs[0][3:], *logs[1]])
    assert [(each.partition, each.offset) for each in found] == [(0, 5), (1, 100)]
    assert machine.is_round_over
    machine.next_round()
    assert machine.progress().ended == "all"
    assert machine.progress().offsets_passed == 8


def test_an_empty_topic_ends_at_once() -> None:
    assert SearchMachine(NEEDLE, {0: (3, 3)}, is_newest_first=True).progress().ended == "all"


def test_it_ends_with_as_many_matches_as_it_may_have() -> None:
    logs = {0: log(0, [True] * 50)}
    machine = SearchMachine(NEEDLE, {0: (0, 50)}, is_newest_first=False, matches_max=10)
    assert [each.offset for each in search(machine, logs)] == list(range(10))
    assert machine.progress().ended == "matches"
    machine = SearchMachine(NEEDLE, {0: (0, 50)}, is_newest_first=True, matches_max=10)
    assert [each.offset for each in search(machine, logs)] == list(range(49, 39, -1))
    assert machine.progress().ended == "matches"


def test_a_cancelled_search_looks_at_no_more() -> None:
    machine = SearchMachine(NEEDLE, {0: (0, 5)}, is_newest_first=False)
    machine.cancel()
    assert machine.receive(log(0, [True])) == []
    assert machine.progress().ended == "cancelled"
    assert machine.progress().looked_at == 0


def test_what_is_left_out_of_a_log_counts_as_passed() -> None:
    machine = SearchMachine(NEEDLE, {0: (0, 1_000)}, is_newest_first=False)
    machine.receive([record(990, b"needle")])
    machine.reach_end(0)
    assert machine.is_round_over
    assert (machine.progress().offsets_passed, machine.progress().looked_at) == (1_000, 1)


def test_a_record_behind_the_end_ends_its_partition_and_does_not_count() -> None:
    machine = SearchMachine(NEEDLE, {0: (0, 10)}, is_newest_first=False)
    assert machine.receive([record(12, b"needle")]) == []
    assert machine.is_round_over
    assert machine.progress().matches == 0


def test_large_matches_are_held_within_a_bound() -> None:
    large = b"needle" + b"x" * (SEARCH_HELD_BYTES_MAX // 4)
    machine = SearchMachine(NEEDLE, {0: (0, 20)}, is_newest_first=True)
    found = search(machine, {0: [record(offset, large, timestamp_ms=offset) for offset in range(20)]})
    assert [each.offset for each in found] == [19, 18, 17]
    assert machine.progress().ended == "matches"


@given(
    st.dictionaries(st.integers(0, 3), st.lists(st.booleans(), max_size=1_500), max_size=3), st.booleans(), st.data()
)
def test_it_finds_what_looking_at_all_records_finds(
    needles: dict[int, list[bool]], is_newest_first: bool, data: st.DataObject
) -> None:
    logs = {place: log(place, hits, first=place * 5) for place, hits in needles.items()}
    # Compaction leaves some out.
    step = data.draw(st.integers(1, 3))
    kept = {place: records[::step] for place, records in logs.items()}
    spans = {place: (place * 5, place * 5 + len(hits)) for place, hits in needles.items()}
    machine = SearchMachine(NEEDLE, spans, is_newest_first=is_newest_first, matches_max=10_000)
    found = search(machine, kept, data.draw(st.integers(1, 400)))
    expected = [each for records in kept.values() for each in records if NEEDLE.hold(each)]
    assert sorted(map(id, found)) == sorted(map(id, expected))
    progress = machine.progress()
    assert progress.offsets_passed == progress.offsets_total == sum(map(len, needles.values()))
    assert progress.looked_at == sum(map(len, kept.values()))
