"""The journal against power loss, at every moment hypothesis can think of.

A model client appends, a model disk loses, tears and reorders what was not flushed. After each start: what was
acknowledged or visible is there, every record is where it was put, offsets have no gaps, an idempotent producer that
repeats has each batch exactly once, and the files hold nothing that an inspection would object to.

`HUTONG_CRASH_EXAMPLES` runs more histories than the default.
"""

import contextlib
import os
from collections import deque
from random import Random

import hypothesis
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.journal.stage import DIRECTORY, SMALL, Append, Stage

from hutong.foundation.errors import HutongError, StorageError
from hutong.journal.qos import Qos
from hutong.journal.recovery import recover
from hutong.journal.retention import RetentionPolicy
from hutong.journal.writer import Appended

PLAIN_PARTITIONS = (1, 2)
IDEMPOTENT_PARTITION = 3
RECEIVE_PARTITION = 4
PARTITIONS = (*PLAIN_PARTITIONS, IDEMPOTENT_PARTITION, RECEIVE_PARTITION)
PRODUCER_ID = 77
EXAMPLES = int(os.environ.get("HUTONG_CRASH_EXAMPLES", "80"))


class Client:
    """An idempotent producer with several batches in flight, which sends again what was not acknowledged, in order."""

    def __init__(self) -> None:
        self.next_sequence = 0
        self.unacknowledged: deque[tuple[int, list[bytes], Append | None]] = deque()

    def settle(self) -> None:
        while self.unacknowledged:
            append = self.unacknowledged[0][2]
            if append is None or not isinstance(append.outcome, Appended):
                return
            self.unacknowledged.popleft()

    @property
    def has_failed(self) -> bool:
        return any(append is None or isinstance(append.outcome, HutongError) for _, _, append in self.unacknowledged)


class JournalHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.client = Client()
        self.counter = 0
        self.placed: dict[int, dict[int, bytes]] = {partition_id: {} for partition_id in PARTITIONS}
        self.open_appends: list[tuple[int, int, Append]] = []  # partition, base offset, append
        self.safe_end = dict.fromkeys(PARTITIONS, 0)  # every offset before it was acknowledged or seen
        self.asked_start = dict.fromkeys(PARTITIONS, 0)

    # -- what a user does

    @rule(
        partition_id=st.sampled_from((*PLAIN_PARTITIONS, RECEIVE_PARTITION)),
        count=st.integers(1, 4),
        size=st.sampled_from([10, 60, 1300]),
        qos=st.sampled_from([Qos.RECEIVE, Qos.PERSISTENCE, Qos.ALL]),
    )
    def append(self, partition_id: int, count: int, size: int, qos: Qos) -> None:
        values = [self.new_value(size) for _ in range(count)]
        base_offset = self.stage.journal.log(partition_id).end_offset
        append = self.stage.append(partition_id, *values, qos=qos)
        self.note(partition_id, base_offset, values, append, qos)

    @rule(count=st.integers(1, 3))
    def produce(self, count: int) -> None:
        """The idempotent producer sends a batch, or again what failed; it keeps at most five in flight."""
        if self.client.has_failed:
            self.produce_again()
        elif len(self.client.unacknowledged) < 5:
            values = [self.new_value(30) for _ in range(count)]
            sequence = self.client.next_sequence
            self.client.next_sequence += count
            self.client.unacknowledged.append((sequence, values, self.send(sequence, values)))

    @rule(partition_id=st.sampled_from(PARTITIONS), back=st.integers(0, 5))
    def delete_before(self, partition_id: int, back: int) -> None:
        log = self.stage.journal.log(partition_id)
        offset = max(log.start_offset, log.high_watermark - back)
        log.delete_before(offset)
        self.asked_start[partition_id] = max(self.asked_start[partition_id], offset)

    @rule(kept_bytes=st.integers(0, 3000))
    def enforce_retention(self, kept_bytes: int) -> None:
        policy = RetentionPolicy(retention_bytes=kept_bytes)
        self.stage.journal.enforce_retention(dict.fromkeys(PLAIN_PARTITIONS, policy))
        for partition_id in PLAIN_PARTITIONS:
            start = self.stage.journal.log(partition_id).start_offset
            self.asked_start[partition_id] = max(self.asked_start[partition_id], start)

    # -- what the machine does

    @rule(step=st.sampled_from(["turn", "work", "tell", "settle", "settle"]))
    def happen(self, step: str) -> None:
        match step:
            case "turn":
                self.stage.turn()
            case "work":
                self.stage.steps.work()
            case "tell":
                self.stage.steps.tell()
            case _:
                self.stage.settle()
        self.settle_outcomes()

    @rule(capacity=st.sampled_from([None, None, 0, 8_000]), is_cached=st.booleans(), fails=st.booleans())
    def change_the_disk(self, capacity: int | None, is_cached: bool, fails: bool) -> None:
        self.stage.disk.capacity_bytes = capacity
        self.stage.disk.is_cached = is_cached
        self.stage.disk.failing_flushes = int(fails)

    @rule(is_asked=st.booleans())
    def checkpoint(self, is_asked: bool) -> None:
        if is_asked:
            self.stage.journal.checkpointer.begin()
        else:
            self.stage.advance(SMALL.checkpoint_interval_ms + 20)

    @rule(seed=st.integers(0, 10_000), changes=st.integers(0, 5), moment=st.sampled_from(["idle", "work", "start"]))
    def crash(self, seed: int, changes: int, moment: str) -> None:
        """The power goes: between two steps, in the middle of some work, or again during the start after it."""
        self.settle_outcomes()
        if moment == "work":
            self.stage.disk.changes_until_power_loss = changes
            self.stage.steps.work()
        self.stage.crash(Random(seed))
        if moment == "start":
            self.stage.disk.changes_until_power_loss = changes
            with contextlib.suppress(StorageError):
                recover(self.stage.disk, DIRECTORY, self.stage.settings)
            self.stage.disk.crash(Random(seed + 1))
        self.reopen()

    @rule()
    def restart(self) -> None:
        """A stop as it should be; it leaves nothing to repair unless the disk was at fault."""
        self.stage.disk.failing_flushes = 0
        self.stage.close()
        is_sound = self.stage.journal.failure is None and not self.stage.journal.is_disk_full
        self.settle_outcomes()
        self.reopen()
        if is_sound and self.stage.disk.capacity_bytes is None:
            assert self.stage.journal.recovery.was_clean, self.stage.journal.recovery.sentences()

    # -- what must hold

    def reopen(self) -> None:
        self.stage.disk.failing_flushes = 0
        self.stage.open()
        self.client.unacknowledged = deque(
            (sequence, values, None) for sequence, values, _ in self.client.unacknowledged
        )
        self.open_appends.clear()
        for partition_id in PARTITIONS:
            log = self.stage.journal.log(partition_id)
            assert log.end_offset >= self.safe_end[partition_id], "an acknowledged record is lost"
            assert log.start_offset <= self.asked_start[partition_id], "records went that nobody gave up"
            placed = self.placed[partition_id]
            for offset in [offset for offset in placed if offset >= log.end_offset]:
                del placed[offset]
            self.check_contents(partition_id)

    @invariant()
    def what_is_visible_is_what_was_placed(self) -> None:
        self.stage.journal.check_invariants()
        for partition_id in (*PLAIN_PARTITIONS, IDEMPOTENT_PARTITION):
            high_watermark = self.stage.journal.log(partition_id).high_watermark
            self.safe_end[partition_id] = max(self.safe_end[partition_id], high_watermark)

    def teardown(self) -> None:
        self.stage.disk.capacity_bytes = None
        self.stage.disk.failing_flushes = 0
        self.settle_outcomes()
        self.stage.crash(Random(1))
        self.reopen()
        self.stage.settle()
        if self.client.has_failed:
            self.produce_again()
        self.stage.settle()
        self.settle_outcomes()
        assert not self.client.unacknowledged
        for partition_id in PARTITIONS:
            self.check_contents(partition_id)
        self.stage.close()
        assert [problem for problem in self.stage.problems() if "set-aside" not in problem] == []

    def check_contents(self, partition_id: int) -> None:
        log = self.stage.journal.log(partition_id)
        placed = self.placed[partition_id]
        expected = [(offset, placed[offset]) for offset in range(log.start_offset, log.high_watermark)]
        found = self.stage.read_all(log, max_bytes=700)
        assert found == expected
        if partition_id == IDEMPOTENT_PARTITION:
            values = [value for _, value in found]
            assert values == sorted(set(values)), "a batch was written twice or out of order"

    # -- helpers

    def produce_again(self) -> None:
        waiting = list(self.client.unacknowledged)
        self.client.unacknowledged = deque(
            (sequence, values, self.send(sequence, values)) for sequence, values, _ in waiting
        )

    def new_value(self, size: int) -> bytes:
        self.counter += 1
        return b"%06d" % self.counter + b"." * size  # no zeros: they would look like a sector that was lost

    def note(self, partition_id: int, base_offset: int, values: list[bytes], append: Append, qos: Qos) -> None:
        if isinstance(append.outcome, HutongError):
            return
        placed = self.placed[partition_id]
        for number, value in enumerate(values):
            placed[base_offset + number] = value
        if qos > Qos.RECEIVE:
            self.open_appends.append((partition_id, base_offset + len(values), append))

    def send(self, sequence: int, values: list[bytes]) -> Append:
        log = self.stage.journal.log(IDEMPOTENT_PARTITION)
        base_offset = log.end_offset
        append = self.stage.append(log, *values, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
        if log.end_offset > base_offset:
            self.note(IDEMPOTENT_PARTITION, base_offset, values, append, Qos.PERSISTENCE)
        return append

    def settle_outcomes(self) -> None:
        for partition_id, end_offset, append in self.open_appends:
            if isinstance(append.outcome, Appended):
                self.safe_end[partition_id] = max(self.safe_end[partition_id], end_offset)
        self.open_appends = [entry for entry in self.open_appends if entry[2].is_open]
        self.client.settle()


TestJournalHistory = JournalHistory.TestCase
TestJournalHistory.settings = hypothesis.settings(
    max_examples=EXAMPLES,
    stateful_step_count=60,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
