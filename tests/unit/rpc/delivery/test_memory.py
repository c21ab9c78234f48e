"""The memory of calls, told as transcripts: what was heard, what was decided. No loop, no store, no clock."""

from collections.abc import Iterable

import pytest

from hutong.foundation.machine import Answer, Tick
from hutong.rpc.delivery.ids import CallId
from hutong.rpc.delivery.machine import CallMemoryMachine
from hutong.rpc.delivery.messages import (
    HORIZON,
    NO_FINGERPRINT,
    Asked,
    CallRecord,
    CallRefusal,
    Change,
    ChangesNotStored,
    ChangesStored,
    Event,
    Execute,
    Executed,
    Fingerprint,
    HorizonRecord,
    Instruction,
    Key,
    Known,
    Loaded,
    MemorySettings,
    Reason,
    Record,
    Replayed,
    SessionRecord,
    Store,
)

NOW = 1_700_000_000_000
KEEP = 10_000
SKEW = 1_000
SETTINGS = MemorySettings(keep_for_ms=KEEP, clock_skew_ms=SKEW, tidy_after=2)


def session(number: int, began_ms: int = NOW) -> str:
    return f"{began_ms:012x}7{number:019x}"


ANN, BOB = session(1), session(2)
EXPIRED, UNKNOWN, NOT_KEPT = CallRefusal(Reason.EXPIRED), CallRefusal(Reason.UNKNOWN), CallRefusal(Reason.NOT_KEPT)


class Scene:
    """A memory and a store that does at once what it is told, unless it is `held`."""

    def __init__(self, settings: MemorySettings = SETTINGS, log: Iterable[Change] = (), now_ms: int = NOW) -> None:
        self.settings = settings
        self.memory = CallMemoryMachine(settings)
        self.log = list(log)
        self.is_held = False
        self.held: list[Store] = []
        self.askers = 0
        for key, record in self.log:
            self.memory.handle(Replayed(key, record))
        self.said: list[Instruction] = []
        self.tell(Loaded(now_ms))

    def tell(self, event: Event) -> list[Instruction]:
        """The messages, except those on stored records."""
        before = len(self.said)
        for instruction in self.memory.handle(event):
            if not isinstance(instruction, Store):
                self.said.append(instruction)
            elif self.is_held:
                self.held.append(instruction)
            else:
                self.store(instruction)
        self.memory.check_invariants()
        return self.said[before:]

    def store(self, store: Store) -> list[Instruction]:
        self.log += store.changes
        return self.tell(ChangesStored(store.number))

    def ask(
        self,
        name: str,
        sequence: int,
        acked_below: int = 0,
        now_ms: int = NOW,
        fingerprint: Fingerprint = NO_FINGERPRINT,
        caller: str = "",
    ) -> list[Instruction]:
        self.askers += 1
        return self.tell(Asked(self.askers, CallId(name, sequence), acked_below, now_ms, fingerprint, caller))

    def finish(self, name: str, sequence: int, outcome: bytes = b"done", now_ms: int = NOW) -> list[Instruction]:
        return self.tell(Executed(CallId(name, sequence), outcome, outcome, now_ms))

    def call(self, name: str, sequence: int, acked_below: int = 0, now_ms: int = NOW) -> None:
        self.ask(name, sequence, acked_below, now_ms)
        self.finish(name, sequence, now_ms=now_ms)

    def again(self, now_ms: int = NOW, log: Iterable[Change] | None = None) -> "Scene":
        """The process is killed; another reads what is stored."""
        return Scene(self.settings, self.log if log is None else log, now_ms)

    @property
    def kept(self) -> dict[Key, Record]:
        latest = dict(self.log)
        return {key: record for key, record in latest.items() if record is not None}


def test_a_start_is_stored_before_it_is_executed_and_an_outcome_before_it_is_answered() -> None:
    memory = CallMemoryMachine(SETTINGS)
    memory.handle(Loaded(NOW))
    call = CallId(ANN, 0)
    begun = (call, CallRecord(Known.STARTED, NOW))
    assert memory.handle(Asked(1, call, 0, NOW)) == [Store(1, (begun,))]
    assert memory.handle(ChangesStored(1)) == [Execute(1, call)]
    ended = (call, CallRecord(Known.FINISHED, NOW + 5, b"done"))
    assert memory.handle(Executed(call, b"done", b"done", NOW + 5)) == [Store(2, (ended,))]
    assert memory.handle(ChangesStored(2)) == [Answer(1, b"done")]


RESERVE, PAY = Fingerprint("reserve", b"1"), Fingerprint("pay", b"1")
REUSED = CallRefusal(Reason.REUSED, action="reserve")


@pytest.mark.parametrize("other", [PAY, Fingerprint("reserve", b"2")], ids=["action", "arguments"])
def test_an_id_with_another_content_is_refused_in_every_state(other: Fingerprint) -> None:
    scene = Scene()
    scene.is_held = True
    scene.ask(ANN, 0, fingerprint=RESERVE)
    assert scene.ask(ANN, 0, fingerprint=other) == [Answer(2, REUSED)], "while its start is stored"
    scene.store(scene.held.pop())
    assert scene.ask(ANN, 0, fingerprint=other) == [Answer(3, REUSED)], "while it runs"
    assert scene.ask(ANN, 0, fingerprint=RESERVE) == []
    killed = scene.again()
    assert killed.ask(ANN, 0, fingerprint=other) == [Answer(1, REUSED)], "after a crash, outcome unknown"
    assert killed.ask(ANN, 0, fingerprint=RESERVE) == [Answer(2, UNKNOWN)]
    scene.finish(ANN, 0)
    assert scene.ask(ANN, 0, fingerprint=other) == [Answer(5, REUSED)], "while its outcome is stored"
    scene.store(scene.held.pop())
    later = scene.again()
    assert later.ask(ANN, 0, fingerprint=other) == [Answer(1, REUSED)], "from the store"
    assert later.ask(ANN, 0, fingerprint=RESERVE) == [Answer(2, b"done")]


def test_an_outcome_that_was_not_kept_keeps_its_fingerprint() -> None:
    scene = Scene()
    scene.ask(ANN, 0, fingerprint=RESERVE)
    scene.tell(Executed(CallId(ANN, 0), b"", None, NOW))
    assert scene.again().ask(ANN, 0, fingerprint=PAY) == [Answer(1, REUSED)]
    assert scene.again().ask(ANN, 0, fingerprint=RESERVE) == [Answer(1, NOT_KEPT)]


def test_a_record_without_a_fingerprint_answers_every_content() -> None:
    old = [(CallId(ANN, 0), CallRecord(Known.FINISHED, NOW, b"done"))]
    assert Scene(log=old).ask(ANN, 0, fingerprint=PAY) == [Answer(1, b"done")]


SHARED = MemorySettings(
    keep_for_ms=KEEP, clock_skew_ms=SKEW, calls_max=8, sessions_max=8, in_progress_max=8, kept_bytes_max=32
)


def full(limit: str) -> CallRefusal:
    return CallRefusal(Reason.FULL, f"{limit} of one caller", 8 if limit == "kept_bytes_max" else 2)


@pytest.mark.parametrize("is_one_session", [True, False])
def test_one_caller_from_outside_leaves_room_for_others(is_one_session: bool) -> None:
    scene = Scene(SHARED)
    for number in range(2):
        scene.ask(ANN if is_one_session else session(10 + number), number, caller="ann")
        scene.tell(Executed(CallId(ANN if is_one_session else session(10 + number), number), b"", b"", NOW))
    asked = scene.ask(ANN if is_one_session else session(12), 2, caller="ann")
    assert asked == [Answer(3, full("calls_max" if is_one_session else "sessions_max"))]
    assert scene.ask(BOB, 0, caller="bob") == [Execute(4, CallId(BOB, 0))]
    for number in range(5):
        assert len(scene.ask(session(20), number)) == 1, "calls of the own process have no share"
    again = scene.ask(ANN if is_one_session else session(10), 0, caller="ann")
    assert again == [Answer(10, b"")], "what is remembered is answered"


def test_the_bytes_and_the_calls_in_progress_of_one_caller_are_bounded() -> None:
    scene = Scene(SHARED)
    scene.ask(ANN, 0, caller="ann")
    scene.finish(ANN, 0, b"12345678")
    assert scene.ask(ANN, 1, caller="ann") == [Answer(2, full("kept_bytes_max"))]
    for number in range(2):
        scene.ask(BOB, number, caller="bob")
    scene.memory.settings = MemorySettings(in_progress_max=8)
    assert scene.ask(BOB, 2, caller="bob") == [Answer(5, full("in_progress_max"))]


def test_what_a_caller_acknowledges_or_leaves_idle_gives_its_share_back() -> None:
    scene = Scene(SHARED)
    for number in range(10):
        scene.ask(ANN, number, acked_below=number, caller="ann")
        scene.finish(ANN, number)
        scene.memory.settings = MemorySettings(keep_for_ms=KEEP, clock_skew_ms=SKEW, calls_max=8, tidy_after=1)
    assert scene.memory.holdings.calls <= 2
    scene.tell(Tick(NOW + 2 * KEEP))
    assert len(scene.memory.holdings.sessions) == 0
    assert not scene.memory.holdings.shares


def test_a_duplicate_waits_for_the_call_in_progress() -> None:
    scene = Scene()
    scene.is_held = True
    assert scene.ask(ANN, 0) == []
    assert scene.ask(ANN, 0) == []
    scene.store(scene.held.pop())
    assert scene.ask(ANN, 0) == []
    assert scene.finish(ANN, 0) == []
    assert scene.ask(ANN, 0) == []
    assert scene.store(scene.held.pop()) == [Answer(ticket, b"done") for ticket in (1, 2, 3, 4)]


def test_a_duplicate_of_a_finished_call_gets_its_outcome() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    assert scene.ask(ANN, 0) == [Answer(2, b"done")]
    assert scene.ask(BOB, 0) == [Execute(3, CallId(BOB, 0))], "another session, another call"


def test_a_start_that_was_not_stored_is_not_executed_and_may_be_asked_again() -> None:
    scene = Scene()
    scene.is_held = True
    scene.ask(ANN, 0)
    assert scene.tell(ChangesNotStored(scene.held.pop().number)) == [Answer(1, CallRefusal(Reason.NOT_STORED))]
    scene.is_held = False
    assert scene.ask(ANN, 0) == [Execute(2, CallId(ANN, 0))]


def test_an_outcome_that_was_not_stored_is_stored_later_and_answered_then() -> None:
    scene = Scene()
    scene.ask(ANN, 0)
    scene.is_held = True
    scene.finish(ANN, 0)
    assert scene.tell(ChangesNotStored(scene.held.pop().number)) == []
    assert scene.ask(ANN, 0) == []
    assert scene.memory.next_tick_ms() == NOW + 1_000
    assert scene.tell(Tick(NOW + 1_000)) == []
    assert scene.store(scene.held.pop()) == [Answer(1, b"done"), Answer(2, b"done")]


def test_an_outcome_is_answered_after_a_restart() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    assert scene.again().ask(ANN, 0) == [Answer(1, b"done")]


def test_an_outcome_that_was_answered_is_never_unknown_after_a_restart() -> None:
    scene = Scene()
    scene.ask(ANN, 0)
    scene.is_held = True
    answered = scene.finish(ANN, 0)
    later = scene.again()
    assert later.ask(ANN, 0) == [Answer(1, UNKNOWN)]
    assert answered == []


def test_a_call_begun_before_a_restart_is_not_executed_again() -> None:
    scene = Scene()
    scene.ask(ANN, 0)
    later = scene.again()
    assert later.ask(ANN, 0) == [Answer(1, UNKNOWN)]
    assert later.again().ask(ANN, 0) == [Answer(1, UNKNOWN)], "nor after the next"


def test_a_start_written_late_by_a_replaced_process_does_not_hide_the_outcome() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    scene.log.append((CallId(ANN, 0), CallRecord(Known.STARTED, NOW)))
    assert scene.again().ask(ANN, 0) == [Answer(1, b"done")]


def test_what_is_acknowledged_is_refused_however_late_it_comes() -> None:
    scene = Scene()
    for sequence in range(4):
        scene.call(ANN, sequence, acked_below=sequence)
    assert scene.kept.keys() == {ANN, CallId(ANN, 2), CallId(ANN, 3)}
    assert scene.kept[ANN] == SessionRecord(2, NOW)
    assert scene.ask(ANN, 1) == [Answer(5, EXPIRED)]
    assert scene.ask(ANN, 2) == [Answer(6, EXPIRED)], "acknowledged, and not deleted yet"
    later = scene.again()
    assert later.ask(ANN, 1) == [Answer(1, EXPIRED)]
    assert later.ask(ANN, 2) == [Answer(2, b"done")], "that was acknowledged since, is not in the store"
    assert later.ask(ANN, 4) == [Execute(3, CallId(ANN, 4))]


def test_an_acknowledgement_is_stored_before_what_it_deletes() -> None:
    scene = Scene()
    for sequence in range(2):
        scene.call(ANN, sequence)
    scene.is_held = True
    scene.ask(ANN, 1, acked_below=2)
    (saving,) = scene.held
    assert saving.changes == ((ANN, SessionRecord(2, NOW)),)
    assert scene.again().ask(ANN, 0) == [Answer(1, b"done")]
    scene.store(saving)
    assert scene.held[1].changes == ((CallId(ANN, 0), None), (CallId(ANN, 1), None))
    assert scene.again(log=[*scene.log, *scene.held[1].changes]).ask(ANN, 0) == [Answer(1, EXPIRED)]


def test_a_jump_of_the_watermark_over_calls_in_progress_leaves_them_to_end() -> None:
    scene = Scene()
    scene.ask(ANN, 0)
    scene.ask(ANN, 1)
    assert scene.ask(ANN, 9, acked_below=9)[-1] == Execute(scene.askers, CallId(ANN, 9))
    assert scene.ask(ANN, 0) == [Answer(4, EXPIRED)]
    assert scene.finish(ANN, 0) == [Answer(1, b"done")]
    assert CallId(ANN, 0) not in scene.kept


def test_a_call_that_acknowledges_itself_is_refused() -> None:
    scene = Scene()
    assert scene.ask(ANN, 3, acked_below=4) == [Answer(1, EXPIRED)]
    assert scene.kept == {}


def test_an_idle_session_is_forgotten_and_refused_from_then_on() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    scene.call(ANN, 1)
    scene.tell(Tick(NOW + KEEP - 1))
    assert scene.ask(ANN, 0, now_ms=NOW) == [Answer(3, b"done")]
    scene.tell(Tick(NOW + KEEP))
    assert scene.kept == {HORIZON: HorizonRecord(NOW)}
    assert scene.memory.next_tick_ms() is None
    assert scene.ask(ANN, 0, now_ms=NOW + KEEP) == [Answer(4, EXPIRED)]


def test_a_forgotten_session_is_refused_though_the_clock_goes_back() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    scene.tell(Tick(NOW + KEEP))
    assert scene.ask(ANN, 0, now_ms=NOW) == [Answer(2, EXPIRED)]
    assert scene.again().ask(ANN, 0, now_ms=NOW) == [Answer(1, EXPIRED)]


def test_the_next_scan_is_near_though_the_clock_went_back_while_nothing_was_remembered() -> None:
    scene = Scene()
    assert scene.memory.next_tick_ms() is None
    scene.tell(Tick(NOW))
    scene.ask(ANN, 0, now_ms=NOW - SKEW)
    assert scene.memory.next_tick_ms() == NOW - SKEW + 1_000
    scene.tell(Tick(NOW - SKEW + 1_000))
    assert scene.memory.next_tick_ms() == NOW - SKEW + 2_000


def test_a_session_half_forgotten_at_a_crash_is_refused() -> None:
    """Each part of the deletions may be in the store."""
    scene = Scene()
    scene.call(ANN, 0)
    scene.call(ANN, 1)
    scene.is_held = True
    scene.tell(Tick(NOW + KEEP))
    while scene.held:
        changes = [change for step in scene.held for change in step.changes]
        for kept in range(1 << len(changes)):
            part = [change for place, change in enumerate(changes) if kept >> place & 1]
            for sequence in range(2):
                later = scene.again(now_ms=NOW, log=[*scene.log, *part])
                said = later.ask(ANN, sequence)
                assert not any(isinstance(each, Execute) for each in said), (part, sequence)
        scene.store(scene.held.pop(0))
    assert scene.kept == {HORIZON: HorizonRecord(NOW)}


def test_a_session_is_not_forgotten_while_its_calls_are_being_deleted() -> None:
    scene = Scene()
    for sequence in range(3):
        scene.call(ANN, sequence)
    scene.is_held = True
    scene.ask(ANN, 2, acked_below=2)
    scene.store(scene.held.pop())
    deleting = scene.held.pop()
    scene.tell(Tick(NOW + KEEP))
    assert scene.held == []
    assert len(scene.memory.holdings.sessions) == 1
    scene.tell(ChangesNotStored(deleting.number))
    scene.is_held = False
    scene.tell(Tick(NOW + KEEP))
    scene.tell(Tick(NOW + KEEP))
    assert scene.kept == {HORIZON: HorizonRecord(NOW)}


def test_a_session_with_a_call_in_progress_is_not_forgotten() -> None:
    scene = Scene()
    scene.ask(ANN, 0)
    scene.tell(Tick(NOW + 5 * KEEP))
    assert scene.ask(ANN, 0, now_ms=NOW + 5 * KEEP) == []
    assert scene.finish(ANN, 0, now_ms=NOW + 5 * KEEP) == [Answer(1, b"done"), Answer(2, b"done")]


def test_an_unknown_session_is_judged_by_its_age() -> None:
    scene = Scene()
    old, young = session(3, NOW - KEEP + SKEW), session(4, NOW - KEEP + SKEW + 1)
    assert scene.ask(old, 0) == [Answer(1, EXPIRED)]
    assert scene.ask(young, 0)[-1] == Execute(scene.askers, CallId(young, 0))
    ahead, far_ahead = session(5, NOW + SKEW), session(6, NOW + SKEW + 1)
    assert scene.ask(ahead, 0)[-1] == Execute(scene.askers, CallId(ahead, 0))
    assert scene.ask(far_ahead, 0) == [Answer(4, CallRefusal(Reason.FROM_THE_FUTURE))]


def test_what_nobody_acknowledges_expires_in_a_session_that_goes_on() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    scene.call(ANN, 1, now_ms=NOW + KEEP // 2)
    scene.call(ANN, 2, now_ms=NOW + KEEP)
    scene.tell(Tick(NOW + KEEP))
    assert scene.ask(ANN, 0) == [Answer(4, EXPIRED)]
    assert scene.ask(ANN, 1) == [Answer(5, b"done")]
    assert CallId(ANN, 0) not in scene.kept


def test_a_result_that_is_too_large_is_answered_and_not_kept() -> None:
    scene = Scene(MemorySettings(keep_for_ms=KEEP, clock_skew_ms=SKEW, outcome_bytes_max=10))
    scene.ask(ANN, 0)
    scene.ask(ANN, 0)
    assert scene.finish(ANN, 0, b"x" * 11) == [Answer(1, b"x" * 11), Answer(2, b"x" * 11)], "for all who wait"
    assert scene.ask(ANN, 0) == [Answer(3, NOT_KEPT)]
    assert scene.again().ask(ANN, 0) == [Answer(1, NOT_KEPT)]


def test_results_beyond_the_memory_are_not_kept() -> None:
    scene = Scene(MemorySettings(keep_for_ms=KEEP, clock_skew_ms=SKEW, kept_bytes_max=10))
    scene.ask(ANN, 0)
    scene.ask(ANN, 1)
    scene.finish(ANN, 0, b"x" * 6)
    scene.finish(ANN, 1, b"y" * 6)
    assert scene.ask(ANN, 0) == [Answer(3, b"x" * 6)]
    assert scene.ask(ANN, 1) == [Answer(4, NOT_KEPT)]


@pytest.mark.parametrize(
    ("limit", "maximum"),
    [
        ("sessions_max", 1),
        ("calls_max", 2),
        ("session_calls_max", 2),
        ("in_progress_max", 1),
        ("kept_bytes_max", 4),
    ],
)
def test_at_a_bound_a_new_call_is_refused_and_the_bound_is_named(limit: str, maximum: int) -> None:
    bounds: dict[str, int] = {"keep_for_ms": KEEP, "clock_skew_ms": SKEW, limit: maximum}
    scene = Scene(MemorySettings(**bounds))
    if limit != "in_progress_max":
        scene.call(ANN, 0)
    if limit != "kept_bytes_max":
        scene.ask(ANN, 1)
    asked = scene.ask(BOB if limit == "sessions_max" else ANN, 2)
    assert asked == [Answer(scene.askers, CallRefusal(Reason.FULL, limit, maximum))]
    if limit not in ("in_progress_max", "kept_bytes_max"):
        assert scene.ask(ANN, 0) == [Answer(scene.askers, b"done")], "what is known is answered all the same"


def test_after_a_restart_calls_of_earlier_are_counted() -> None:
    scene = Scene()
    scene.call(ANN, 0)
    scene.ask(BOB, 0)
    later = scene.again()
    assert (len(later.memory.holdings.sessions), later.memory.holdings.calls, later.memory.holdings.in_progress) == (
        2,
        2,
        0,
    )
    assert later.memory.holdings.kept_bytes == len(b"done")
    later.tell(Tick(NOW + KEEP))
    later.tell(Tick(NOW + KEEP))
    assert later.memory.next_tick_ms() is None
    assert later.kept == {HORIZON: HorizonRecord(NOW)}


def test_what_is_kept_for_a_session_in_use_stays_small() -> None:
    scene = Scene()
    for sequence in range(10_000):
        scene.call(ANN, sequence, acked_below=sequence)
    assert len(scene.kept) <= 4
    assert scene.memory.holdings.calls <= 3
    assert len(scene.memory._aging) <= 2_000
