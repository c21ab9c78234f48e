"""For all histories of members and restarts: each record ends once, and no two members hold it at a time.

A plain model stands beside the machine: for each offset what it is, who has it, how often it was delivered.
TEST_SHARE_HISTORIES says how many histories are tried (100 by default).
"""

import os
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.foundation.machine import Tick
from hutong.groups.share.delivery.machine import SharePartition
from hutong.groups.share.delivery.messages import (
    Acknowledge,
    AcknowledgedBatch,
    Acknowledgement,
    Acquire,
    BatchSpan,
    Buried,
    Bury,
    DeliveryLimits,
    Hand,
    Instruction,
    PersistProgress,
    ReleaseMember,
    Settled,
)
from hutong.groups.share.delivery.window import DONE, ShareRecordState
from hutong.groups.share.records import decode_progress, encode_progress
from hutong.wire.kafka.error_codes import ErrorCode

OFFSETS = 40
LOCK_MS = 100
RULES = DeliveryLimits(delivery_limit=3, lock_ms=LOCK_MS, locks_max=12, has_dead_letters=True)
BATCHES = [BatchSpan(first, first + size - 1) for first, size in ((0, 3), (3, 1), (4, 8), (12, 1), (15, 5), (20, 20))]
GAPS = {13, 14}  # the log has nothing there


@dataclass
class World:
    """The machine, what is on disk of it, and what must be true."""

    machine: SharePartition = field(default_factory=lambda: SharePartition(0, RULES))
    now_ms: int = 0
    holders: dict[int, tuple[str, int]] = field(default_factory=dict)  # offset -> (member, deadline)
    ended: dict[int, str] = field(default_factory=dict)
    deliveries: dict[int, int] = field(default_factory=dict)
    burying: list[Bury] = field(default_factory=list)
    stored: bytes = encode_progress(0, (), 1)

    def tell(self, event: "Acquire | Acknowledge | ReleaseMember | Tick | Buried") -> list[Instruction]:
        told = self.machine.handle(event)
        if any(isinstance(each, PersistProgress) for each in told):
            self.stored = encode_progress(self.machine.start_offset, self.machine.snapshot(), 1)
        self.burying += [each for each in told if isinstance(each, Bury)]
        self.machine.check_invariants()
        return told

    def acquire(self, member_id: str, records_max: int, *, is_strict: bool) -> None:
        offset = self.machine.next_offset()
        if offset is None or offset >= OFFSETS:
            return
        spans = [span for span in BATCHES if span.last >= offset]
        told = self.tell(Acquire(member_id, self.now_ms, offset, spans, records_max, 5, is_strict))
        (hand,) = [each for each in told if isinstance(each, Hand)]
        for acquired in hand.acquired:
            for at in range(acquired.first, acquired.last + 1):
                assert at not in GAPS
                assert at not in self.holders, "two members hold it"
                assert at not in self.ended, "it came again after it had ended"
                before = self.deliveries.get(at, 0)
                assert before <= acquired.deliveries <= before + 1  # a restart at the limit gives one again
                assert 1 <= acquired.deliveries <= RULES.delivery_limit
                self.deliveries[at] = acquired.deliveries
                self.holders[at] = (member_id, self.now_ms + LOCK_MS)
        assert not is_strict or sum(each.last - each.first + 1 for each in hand.acquired) <= records_max
        assert len(self.holders) <= RULES.locks_max

    def acknowledge(self, member_id: str, kind: Acknowledgement, first: int, count: int) -> None:
        offsets = range(first, first + count)
        told = self.tell(
            Acknowledge(member_id, self.now_ms, [AcknowledgedBatch(first, first + count - 1, [int(kind)])])
        )
        (settle,) = [each for each in told if isinstance(each, Settled)]
        live = [at for at in offsets if at >= self.machine.start_offset or at in self.holders]
        may = all(self.holders.get(at, ("", 0))[0] == member_id for at in live)
        if settle.error is not ErrorCode.NONE:
            assert not may or offsets[-1] >= OFFSETS
            return
        for at in live:
            holder, deadline_ms = self.holders.pop(at)
            assert holder == member_id
            if kind is Acknowledgement.RENEW:
                self.holders[at] = (holder, max(deadline_ms, self.now_ms + LOCK_MS))
            elif kind is Acknowledgement.ACCEPT:
                self.end(at, "accepted")
            elif kind is not Acknowledgement.RELEASE or self.deliveries[at] >= RULES.delivery_limit:
                self.end(at, "given up")

    def end(self, at: int, how: str) -> None:
        assert at not in self.ended
        self.ended[at] = how

    def release(self, offsets: list[int]) -> None:
        for at in offsets:
            del self.holders[at]
            if self.deliveries[at] >= RULES.delivery_limit:
                self.end(at, "given up")

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.tell(Tick(self.now_ms))
        self.release([at for at, (_, deadline_ms) in self.holders.items() if deadline_ms <= self.now_ms])

    def release_member(self, member_id: str) -> None:
        self.tell(ReleaseMember(member_id))
        self.release([at for at, (holder, _) in self.holders.items() if holder == member_id])

    def bury(self) -> None:
        if self.burying:
            letter = self.burying.pop(0)
            self.tell(Buried(letter.first, letter.last))

    def restart(self) -> None:
        progress = decode_progress(self.stored)
        self.machine = SharePartition(progress.start_offset, RULES, progress.runs)
        self.holders.clear()
        self.burying = [each for each in self.machine.to_bury() if isinstance(each, Bury)]
        self.machine.check_invariants()

    def finish(self) -> None:
        """Somebody takes all that is left."""
        for _ in range(200):
            self.pass_time(LOCK_MS)
            while self.burying:
                self.bury()
            self.acquire("last", 100, is_strict=False)
            for at in sorted(self.holders):
                self.acknowledge("last", Acknowledgement.ACCEPT, at, 1)
        assert self.machine.start_offset == OFFSETS
        assert sorted(self.ended) == [at for at in range(OFFSETS) if at not in GAPS]
        assert all(run.state in DONE or run.state is ShareRecordState.AVAILABLE for run in self.machine.snapshot())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "acquire", "strict", "ack", "ack", "ack", "time", "forsake", "bury", "restart"]),
        st.sampled_from(["ann", "bob", "eve"]),
        st.sampled_from(list(Acknowledgement)),
        st.integers(0, OFFSETS),
        st.integers(1, 12),
    ),
    max_size=60,
)


@settings(max_examples=int(os.environ.get("TEST_SHARE_HISTORIES", "100")), deadline=None)
@given(STEPS)
def test_each_record_ends_once(steps: list[tuple[str, str, Acknowledgement, int, int]]) -> None:
    world = World()
    for action, member_id, kind, offset, amount in steps:
        match action:
            case "acquire" | "strict":
                world.acquire(member_id, amount, is_strict=action == "strict")
            case "ack":
                held = sorted(at for at, (holder, _) in world.holders.items() if holder == member_id)
                first = held[offset % len(held)] if held and offset % 3 else offset
                world.acknowledge(member_id, kind, first, amount if offset % 2 else 1)
            case "time":
                world.pass_time(amount * 20)
            case "forsake":
                world.release_member(member_id)
            case "bury":
                world.bury()
            case "restart":
                world.restart()
    world.finish()
