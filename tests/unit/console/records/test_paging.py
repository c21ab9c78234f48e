"""The machine of pages: order, neighbours, gaps of compaction, against all records sorted at once."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.console.records.paging.machine import PageMachine, Span
from hutong.console.records.seen import SeenRecord

Logs = dict[int, list[SeenRecord]]


def seen(partition: int, offset: int, timestamp_ms: int) -> SeenRecord:
    return SeenRecord("t", partition, offset, timestamp_ms, None, b"v", (), 1)


def read(machine: PageMachine, logs: Logs, batch: int = 4) -> list[SeenRecord]:
    """Read parts as a driver does: what comes after a part is read as well."""
    for _ in range(10_000):
        parts = machine.parts()
        machine.check_invariants()
        if not parts:
            return machine.page()
        for partition, (begin, end) in parts.items():
            waiting = [each for each in logs[partition] if each.offset >= begin][:batch]
            machine.receive(waiting)
            if len(waiting) < batch:
                machine.reach_end(partition, end)
    raise AssertionError("the page is never done")


def spans_of(logs: Logs) -> dict[int, Span]:
    return {place: (0, records[-1].offset + 5 if records else 3) for place, records in logs.items()}


def test_the_newest_of_all_partitions() -> None:
    logs = {place: [seen(place, offset, 10 * offset + place) for offset in range(50)] for place in range(3)}
    machine = PageMachine(dict.fromkeys(logs, (0, 50)), 5, is_newest_first=True)
    assert machine.parts() == dict.fromkeys(logs, (45, 50))
    page = read(machine, logs)
    assert [(each.partition, each.offset) for each in page] == [(2, 49), (1, 49), (0, 49), (2, 48), (1, 48)]
    assert machine.bounds() == {0: (49, 50), 1: (48, 50), 2: (48, 50)}


def test_clocks_that_go_back_do_not_change_the_order_of_a_partition() -> None:
    logs = {0: [seen(0, 0, 500), seen(0, 1, 100)], 1: [seen(1, 0, 300)]}
    newest = read(PageMachine({0: (0, 2), 1: (0, 1)}, 9, is_newest_first=True), logs)
    assert [(each.partition, each.offset) for each in newest] == [(1, 0), (0, 1), (0, 0)]


def test_parts_without_records_double() -> None:
    machine = PageMachine({0: (0, 1_000_000)}, 10, is_newest_first=True)
    rounds = 0
    while machine.parts():
        rounds += 1
        machine.reach_end(0, machine.parts()[0][1])
    assert rounds < 30
    assert machine.bounds() == {0: (0, 1_000_000)}


def test_nothing_to_read_is_an_empty_page() -> None:
    machine = PageMachine({0: (7, 7)}, 10, is_newest_first=False)
    assert (machine.is_done, machine.page(), machine.bounds()) == (True, [], {0: (7, 7)})
    assert PageMachine({}, 10, is_newest_first=True).is_done


made_logs = st.dictionaries(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 1_000)), max_size=40),
    min_size=1,
    max_size=3,
)


@given(made_logs, st.booleans(), st.integers(1, 25), st.integers(1, 9))
def test_pages_next_to_each_other_have_every_record_once(
    made: dict[int, list[tuple[int, int]]], is_newest_first: bool, records_max: int, batch: int
) -> None:
    logs: Logs = {}
    for place, steps in made.items():
        offset = 0
        logs[place] = []
        for step, timestamp_ms in steps:
            offset += step
            logs[place].append(seen(place, offset, timestamp_ms))
    spans = spans_of(logs)
    found: list[SeenRecord] = []
    while True:
        machine = PageMachine(spans, records_max, is_newest_first=is_newest_first)
        page = read(machine, logs, batch)
        found += page
        bounds = machine.bounds()
        if is_newest_first:
            spans = {place: (begin, bounds[place][0]) for place, (begin, _) in spans.items()}
        else:
            spans = {place: (bounds[place][1], end) for place, (_, end) in spans.items()}
        if not page:
            break
    for place, records in logs.items():
        own = [each for each in found if each.partition == place]
        assert own == (records[::-1] if is_newest_first else records)
    # By time, where each partition's clock goes forward.
    if all(
        [each.timestamp_ms for each in records] == sorted(each.timestamp_ms for each in records)
        for records in logs.values()
    ):
        times = [each.timestamp_ms for each in found]
        assert times == sorted(times, reverse=is_newest_first)
