"""Records between queues: which go on, which are held, which are due; and how far a queue has come."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hutong.broker.delays.machine import (
    AGAIN_MS,
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    HELD_BYTES_MAX,
    HELD_MAX,
    Append,
    DelayedEntry,
    DelayMachine,
    LeaveOut,
    entry_of,
)
from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.steps import STEPS_S, DelayedRecord, DeliveryPlace, step_for
from hutong.wire.kafka.batch.records import Record

NOW = 1_000_000
ALL = 1 << 30


def entries(
    *dues_ms: int, topic: str = "t", value: bytes = b"x", progress: QueueProgress | None = None
) -> list[DelayedEntry]:
    queue = QueueProgress(0) if progress is None else progress
    made = []
    for due_ms in dues_ms:
        offset = queue.next_offset
        queue.take(offset)
        made.append(entry_of(queue, offset, DelayedRecord(due_ms, DeliveryPlace(topic, 0), Record(value=value))))
    return made


def shown(instructions: list[Append | LeaveOut]) -> list[tuple[str | None, int, list[int]]]:
    return [
        (each.place.topic if each.place else None, each.step, [entry.delayed.due_ms for entry in each.entries])
        for each in instructions
        if isinstance(each, Append)
    ]


def test_what_comes_out_goes_on_is_held_or_is_due() -> None:
    machine = DelayMachine(Recalls())
    appends = machine.come_out(entries(NOW - 5, NOW, NOW + 1, NOW + 999, NOW + 1_000, NOW + 70_000, NOW + 64_999), NOW)
    assert shown(appends) == [
        ("t", 0, [NOW - 5, NOW]),
        (None, 1, [NOW + 1_000]),
        (None, 64, [NOW + 70_000, NOW + 64_999]),
    ]
    assert machine.wake_ms == NOW + 1
    assert machine.fire(NOW, ALL) == []
    assert shown(machine.fire(NOW + 1, ALL)) == [("t", 0, [NOW + 1])]
    assert machine.wake_ms == NOW + 999
    assert shown(machine.fire(NOW + 5_000, ALL)) == [("t", 0, [NOW + 999])]
    assert machine.wake_ms is None
    assert machine.unsettled == 7
    machine.check_invariants()


def test_records_for_one_partition_are_one_batch_up_to_its_bounds() -> None:
    machine = DelayMachine(Recalls())
    appends = machine.come_out(entries(*[NOW] * (BATCH_RECORDS_MAX + 1)), NOW)
    assert [len(append.entries) for append in appends] == [BATCH_RECORDS_MAX, 1]
    large = entries(NOW, NOW, NOW, value=bytes(BATCH_BYTES_MAX // 2))
    assert [len(append.entries) for append in machine.come_out(large, NOW)] == [1, 1, 1]
    huge = entries(NOW, NOW, value=bytes(2 * BATCH_BYTES_MAX))
    assert [len(append.entries) for append in machine.come_out(huge, NOW)] == [1, 1]


def test_what_fires_at_once_leaves_in_parts() -> None:
    machine = DelayMachine(Recalls())
    machine.come_out(entries(NOW + 5, NOW + 6, NOW + 7), NOW)
    assert shown(machine.fire(NOW + 9, 2)) == [("t", 0, [NOW + 5, NOW + 6])]
    assert machine.wake_ms == NOW + 7
    assert machine.fire(NOW + 9, 0) == []
    assert shown(machine.fire(NOW + 9, 2)) == [("t", 0, [NOW + 7])]


def test_an_append_that_failed_is_made_again() -> None:
    machine = DelayMachine(Recalls())
    (due,) = machine.come_out(entries(NOW), NOW)
    machine.fail(due.entries, NOW + 3)
    assert machine.wake_ms == NOW + 3 + AGAIN_MS
    assert shown(machine.fire(NOW + 3 + AGAIN_MS, ALL)) == [("t", 0, [NOW])]
    # One on its way to another queue is looked at anew: less is left.
    (on,) = machine.come_out(entries(NOW + 2_500), NOW)
    assert isinstance(on, Append)
    assert on.step == 2
    machine.fail(on.entries, NOW)
    (again,) = machine.fire(NOW + AGAIN_MS, ALL)
    assert isinstance(again, Append)
    assert (again.place, again.step) == (None, 1)


def test_what_was_recalled_is_forgotten() -> None:
    recalls = Recalls()
    machine = DelayMachine(recalls)
    names = {"UNIQ_KEY": b"a"}
    queue = QueueProgress(0)
    made: list[DelayedEntry] = []
    for topic, due_ms in (("t", NOW), ("other", NOW), ("t", NOW + 5_000), ("t", NOW + 5)):
        queue.take(len(made))
        delayed = DelayedRecord(due_ms, DeliveryPlace(topic, 0), Record(headers=[*names.items()]))
        made.append(entry_of(queue, len(made), delayed))
    held = machine.come_out(made[3:], NOW)
    assert held == []
    recalls.note("t", b"a", NOW + 5, 0)
    delivered, forgotten = machine.come_out(made[:3], NOW)
    assert delivered.entries == [made[1]]
    assert forgotten == LeaveOut([made[0], made[2]])
    # Also what is held already.
    assert machine.fire(NOW + 5, ALL) == [LeaveOut([made[3]])]
    assert machine.oldest_due_ms == NOW


def test_a_recall_lasts_while_its_record_may_come_again() -> None:
    progress = QueueProgress(0)
    first, recalled = entries(NOW + 300_000, NOW, progress=progress)
    machine = DelayMachine(Recalls())
    machine.come_out([first, recalled], NOW)
    machine.settle([recalled])
    # After a kill the queue begins at the first, whose append has failed: the recalled one comes out again.
    assert (progress.start_offset, progress.oldest_again_ms) == (0, NOW)
    machine.settle([first])
    assert (progress.start_offset, progress.oldest_again_ms) == (2, None)


def test_a_clock_that_was_set_back_holds_nothing_longer_than_a_second() -> None:
    machine = DelayMachine(Recalls())
    machine.come_out(entries(NOW + 500), NOW)
    # By now there are 10 s left, so it goes on to a queue.
    assert machine.fire(NOW - 9_500, ALL) == []
    assert machine.wake_ms == NOW + 500


def test_there_is_room_up_to_the_bounds() -> None:
    machine = DelayMachine(Recalls())
    many = entries(*[NOW + 1] * HELD_MAX)
    machine.come_out(many, NOW)
    assert not machine.has_room
    machine.settle(many[:1])
    assert machine.has_room
    machine.settle(many[1:])
    assert machine.unsettled == 0
    machine.come_out(entries(NOW + 1, value=bytes(HELD_BYTES_MAX)), NOW)
    assert not machine.has_room


@given(st.permutations(range(12)))
def test_a_queue_begins_at_the_first_that_is_not_settled(order: list[int]) -> None:
    progress = QueueProgress(100)
    for offset in range(100, 112):
        progress.take(offset)
    left = set(range(100, 112))
    for index in order:
        progress.settle(100 + index, NOW + index)
        left.remove(100 + index)
        progress.check_invariants()
        assert progress.start_offset == min(left, default=112)
        assert len(progress) == len(left)
    progress.pass_over(120)
    assert progress.start_offset == progress.next_offset == 120
    progress.begin_at(110)
    assert progress.next_offset == 120
    progress.begin_at(130)
    assert progress.start_offset == 130


class Node(RuleBasedStateMachine):
    """Random records in random queues, whose appends fail at random, on a node that is killed at random.

    Every record comes to its topic once at least, never before its time; one that was recalled never comes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.number = 0
        self.due: dict[bytes, int] = {}
        self.delivered: Counter[bytes] = Counter()
        self.logs: dict[int, dict[int, tuple[int, DelayedRecord]]] = {step: {} for step in range(len(STEPS_S))}
        self.ends = dict.fromkeys(self.logs, 0)
        self.starts = dict.fromkeys(self.logs, 0)
        self.failing = False
        self.recalls = Recalls()
        self.recalled: set[bytes] = set()
        self.begin()

    def begin(self) -> None:
        self.machine = DelayMachine(self.recalls)
        self.progress = {step: QueueProgress(self.starts[step]) for step in self.logs}

    def append(self, step: int, delayed: DelayedRecord) -> None:
        self.logs[step][self.ends[step]] = self.now, delayed
        self.ends[step] += 1

    def carry_out(self, instructions: list[Append | LeaveOut]) -> None:
        for append in instructions:
            if isinstance(append, LeaveOut):
                self.machine.settle(append.entries)
                continue
            if self.failing:
                self.machine.fail(append.entries, self.now)
                continue
            for entry in append.entries:
                if append.place is None:
                    self.append(append.step, entry.delayed)
                    continue
                name = entry.delayed.record.value or b""
                assert self.now >= self.due[name], "before its time"
                assert name not in self.recalled
                self.delivered[name] += 1
            self.machine.settle(append.entries)

    def look(self) -> None:
        """Bring out of every queue what has waited, until nothing more happens at this time."""
        moved = True
        while moved:
            moved = False
            for step, log in self.logs.items():
                progress = self.progress[step]
                out = []
                for offset in range(progress.next_offset, self.ends[step]):
                    stored_ms, delayed = log[offset]
                    if stored_ms + STEPS_S[step] * 1_000 > self.now:
                        break
                    progress.take(offset)
                    out.append(entry_of(progress, offset, delayed))
                if out:
                    moved = True
                    self.carry_out(self.machine.come_out(out, self.now))
            self.carry_out(self.machine.fire(self.now, ALL))

    @rule(wait_ms=st.integers(-10, 3_000) | st.integers(0, 300_000_000))
    def put(self, wait_ms: int) -> None:
        self.number += 1
        name = b"%d" % self.number
        self.due[name] = self.now + wait_ms
        record = Record(value=name, headers=[("UNIQ_KEY", name)])
        delayed = DelayedRecord(self.now + wait_ms, DeliveryPlace("t", 0), record)
        self.append(step_for(wait_ms), delayed)
        self.look()

    @rule(number=st.integers(1, 30))
    def recall(self, number: int) -> None:
        name = b"%d" % number
        # As the driver: not once its time has come.
        if self.due.get(name, 0) > self.now:
            self.recalls.note("t", name, self.due[name], number)
            self.recalled.add(name)

    @rule()
    def forget(self) -> None:
        # As the driver: a queue is trimmed with each record that is settled.
        self.trim()
        times = [self.machine.oldest_due_ms, *(progress.oldest_again_ms for progress in self.progress.values())]
        self.recalls.forget(min([self.now, *(time for time in times if time is not None)]))

    @rule(milliseconds=st.integers(1, 2_000) | st.integers(1, 300_000_000))
    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.look()

    @rule(fails=st.booleans())
    def disk(self, fails: bool) -> None:
        self.failing = fails

    @rule()
    def trim(self) -> None:
        for step, progress in self.progress.items():
            self.starts[step] = progress.start_offset

    @rule()
    def kill(self) -> None:
        self.begin()
        self.look()

    @invariant()
    def sound(self) -> None:
        self.machine.check_invariants()
        for progress in self.progress.values():
            progress.check_invariants()

    def teardown(self) -> None:
        self.failing = False
        last = max(self.due.values(), default=self.now)
        # What failed comes again after a second.
        self.now += AGAIN_MS
        self.look()
        while self.now <= last:
            waits = [self.machine.wake_ms or last + 1]
            waits += [
                self.logs[step][progress.next_offset][0] + STEPS_S[step] * 1_000
                for step, progress in self.progress.items()
                if progress.next_offset < self.ends[step]
            ]
            self.now = max(self.now + 1, min(waits))
            self.look()
        assert set(self.delivered) == set(self.due) - self.recalled


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
