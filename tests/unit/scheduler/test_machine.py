"""Turns, told as transcripts: what happened, what was decided. Then, over any history: fair, bounded, nothing lost."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.scheduler.machine import (
    IDLE_ACTORS_MAX,
    Instruction,
    Process,
    Processed,
    Refuse,
    Scheduler,
    Sent,
    TurnBegun,
    Wake,
    Withdrawn,
    Woken,
)

QUOTA_US = 100


def scheduler(**limits: Any) -> Scheduler:
    return Scheduler(**{"quota_us": QUOTA_US, **limits})


def send(machine: Scheduler, *messages: tuple[str, int], cost: int = 1) -> None:
    for key, message in messages:
        machine.handle(Sent(key, message, cost))


def turn(machine: Scheduler, used_us: int = 1) -> list[tuple[object, int]]:
    """One turn in which everything is done at the first try; what was processed."""
    processed: list[tuple[object, int]] = []
    instructions = machine.handle(TurnBegun())
    while instructions and isinstance(instructions[0], Process):
        processed.append((instructions[0].key, instructions[0].message))
        instructions = machine.handle(Processed(used_us, is_done=True))
        machine.check_invariants()
    return processed


def order(machine: Scheduler, turns: int, used_us: int = QUOTA_US) -> str:
    """The keys of so many turns of one message each."""
    return "".join(str(key) for _ in range(turns) for key, _ in turn(machine, used_us))


def test_a_message_wakes_the_executor_and_is_processed_in_its_turn() -> None:
    machine = scheduler()
    assert machine.handle(TurnBegun()) == []
    assert machine.handle(Sent("a", 1, 5)) == [Wake()]
    assert machine.handle(TurnBegun()) == [Process("a", 1)]
    assert machine.handle(Sent("b", 2, 5)) == []  # nobody else runs before this turn is over
    assert machine.handle(Processed(10, is_done=True)) == [Wake()]
    assert machine.handle(TurnBegun()) == [Process("b", 2)]
    assert machine.handle(Processed(10, is_done=True)) == []
    assert len(machine) == 0


def test_a_turn_goes_on_until_its_quota_and_processes_one_at_least() -> None:
    machine = scheduler()
    send(machine, *[("a", number) for number in range(6)])
    assert turn(machine, used_us=40) == [("a", 0), ("a", 1), ("a", 2)]
    assert turn(machine, used_us=10 * QUOTA_US) == [("a", 3)]
    assert turn(machine, used_us=1) == [("a", 4), ("a", 5)]


def test_a_message_that_was_woken_continues_before_others_begin() -> None:
    machine = scheduler()
    send(machine, ("a", 1), ("a", 2), ("b", 3))
    assert machine.handle(TurnBegun()) == [Process("a", 1)]
    assert machine.handle(Processed(1, is_done=False)) == [Wake()]
    assert machine.handle(Woken("a", 1)) == [Wake()]
    assert turn(machine) == [("a", 1), ("a", 2)]
    assert turn(machine) == [("b", 3)]
    assert machine.handle(Woken("a", 1)) == [], "it is done"


def test_who_ran_longest_ago_is_next() -> None:
    machine = scheduler()
    send(machine, *[(key, number) for number, key in enumerate("aaabbbccc")])
    assert order(machine, 9) == "abcabcabc"


def test_a_newcomer_stands_behind_those_who_wait_and_gets_one_turn_like_them() -> None:
    machine = scheduler()
    send(machine, *[(key, number) for number, key in enumerate("aaaabbbb")])
    assert order(machine, 2) == "ab"
    send(machine, *[("n", 10 + number) for number in range(4)])
    assert order(machine, 6) == "abnabn"


def test_a_stream_of_newcomers_does_not_stand_in_front() -> None:
    machine = scheduler()
    send(machine, ("a", 0), ("b", 1))
    ran = ""
    for number in range(20):
        send(machine, (f"n{number}", 100 + number))
        ran += str(turn(machine, QUOTA_US)[0][0])
    assert ran.startswith("ab")


def test_one_that_slept_for_long_has_no_arrears_to_collect() -> None:
    machine = scheduler()
    send(machine, ("s", 0))
    turn(machine)
    for number in range(50):
        send(machine, ("a", 2 * number + 1), ("b", 2 * number + 2))
    assert set(order(machine, 40)) == {"a", "b"}
    send(machine, *[("s", 1000 + number) for number in range(10)])
    assert Counter(order(machine, 30)) == {"a": 10, "b": 10, "s": 10}


def test_of_two_that_woke_the_one_that_used_less_goes_first() -> None:
    machine = scheduler(quantum=1)
    send(machine, ("a", 1), ("b", 2))
    assert turn(machine, used_us=QUOTA_US) == [("a", 1)]
    assert turn(machine, used_us=1) == [("b", 2)]
    send(machine, ("a", 3), ("b", 4))
    assert order(machine, 2) == "ba"


def test_a_full_mailbox_refuses_and_so_does_a_crowd_of_actors() -> None:
    machine = scheduler(mailbox_max=2, actors_max=2)
    send(machine, ("a", 1), ("a", 2))
    assert machine.handle(Sent("a", 3, 1)) == [Refuse(3, "mailbox_max", 2)]
    send(machine, ("b", 4))
    assert machine.handle(Sent("c", 5, 1)) == [Refuse(5, "actors_max", 2)]
    assert turn(machine) == [("a", 1), ("a", 2)]
    assert machine.handle(Sent("c", 6, 1)) == [Wake()]


def test_a_wake_up_that_comes_before_the_message_is_put_aside_is_not_lost() -> None:
    machine = scheduler()
    send(machine, ("a", 1))
    machine.handle(TurnBegun())
    assert machine.handle(Woken("a", 1)) == []
    assert machine.handle(Processed(1, is_done=False)) == [Wake()]
    assert turn(machine) == [("a", 1)]


def test_an_actor_of_weight_2_has_twice_the_turns() -> None:
    machine = scheduler()
    for number in range(60):
        machine.handle(Sent("p", 2 * number, 1, weight=2))
        machine.handle(Sent("q", 2 * number + 1, 1))
    assert Counter(order(machine, 60)) == {"p": 40, "q": 20}


def test_shares_are_of_cost_where_cost_is_charged() -> None:
    machine = scheduler(charges_cost=True, quantum=1)
    for number in range(400):
        machine.handle(Sent("small", 2 * number, 10))
        machine.handle(Sent("large", 2 * number + 1, 50))
    ran = Counter(str(key) for _ in range(120) for key, _ in turn(machine, QUOTA_US))
    assert abs(10 * ran["small"] - 50 * ran["large"]) <= 50


def test_a_small_message_costs_a_quantum() -> None:
    machine = scheduler(charges_cost=True, quantum=50)
    for number in range(100):
        machine.handle(Sent("small", 2 * number, 1))
        machine.handle(Sent("large", 2 * number + 1, 50))
    assert Counter(str(turn(machine, QUOTA_US)[0][0]) for _ in range(40)) == {"small": 20, "large": 20}


def test_one_that_was_away_to_ask_for_more_comes_before_those_that_ran_meanwhile() -> None:
    machine = scheduler(charges_cost=True, quantum=1, credit=30)
    for number in range(100):
        machine.handle(Sent("a", 10 + 2 * number, 10))
        machine.handle(Sent("b", 11 + 2 * number, 10))
    machine.handle(Sent("s", 1, 10))
    assert {str(turn(machine, QUOTA_US)[0][0]) for _ in range(3)} == {"a", "b", "s"}
    order(machine, 4)
    machine.handle(Sent("s", 2, 10))
    assert order(machine, 1) == "s"


def test_an_actor_begins_as_many_messages_as_it_may() -> None:
    machine = scheduler(in_flight_max=2)
    send(machine, ("a", 1), ("a", 2), ("a", 3))
    assert begin(machine) == [Process("a", 1)]
    assert begin(machine) == [Process("a", 2)]
    assert begin(machine) == []
    assert machine.handle(Woken("a", 2)) == [Wake()]
    assert turn(machine) == [("a", 2), ("a", 3)]


def test_a_message_that_nobody_waits_for_is_not_processed() -> None:
    machine = scheduler()
    send(machine, ("a", 1), ("a", 2), ("b", 3))
    assert machine.handle(Withdrawn("a", 1)) == [Wake()]
    assert machine.handle(Withdrawn("b", 3)) == [Wake()]
    assert machine.handle(Withdrawn("b", 3)) == []
    machine.check_invariants()
    assert turn(machine) == [("a", 2)]
    assert machine.handle(TurnBegun()) == []


def begin(machine: Scheduler) -> list[Instruction]:
    """A turn in which the first message is begun, and waits."""
    instructions = machine.handle(TurnBegun())
    if instructions:
        (process,) = instructions
        assert isinstance(process, Process)
        machine.handle(Processed(1, is_done=False))
    machine.check_invariants()
    return instructions


def test_what_was_begun_holds_its_cost_and_the_next_one_waits_for_room() -> None:
    machine = scheduler(cost_max=10)
    for key, message, cost in (("a", 1, 6), ("b", 2, 6), ("c", 3, 1)):
        machine.handle(Sent(key, message, cost))
    assert begin(machine) == [Process("a", 1)]
    assert begin(machine) == []  # `c` would fit, but `b` stands before it
    assert machine.handle(Woken("a", 1)) == [Wake()]
    assert turn(machine) == [("a", 1)]
    assert begin(machine) == [Process("b", 2)]
    assert begin(machine) == [Process("c", 3)]
    assert machine.cost_begun == 7


def test_a_message_that_never_fits_goes_alone_and_is_not_starved() -> None:
    machine = scheduler(cost_max=10)
    for number in range(4):
        machine.handle(Sent("a", number, 6))
    assert begin(machine) == [Process("a", 0)]
    machine.handle(Sent("large", 100, 50))
    machine.handle(Woken("a", 0))
    assert turn(machine) == [("a", 0)], "no further one with the room that the large one waits for"
    assert begin(machine) == [Process("large", 100)]
    assert begin(machine) == []


def test_what_was_begun_is_not_withdrawn() -> None:
    machine = scheduler()
    send(machine, ("a", 1))
    begin(machine)
    assert machine.handle(Withdrawn("a", 1)) == []
    assert machine.cost_begun == 1
    machine.handle(Woken("a", 1))
    assert turn(machine) == [("a", 1)]
    assert machine.cost_begun == 0


def test_a_turn_that_met_a_fault_is_over() -> None:
    machine = scheduler()
    send(machine, ("a", 1), ("a", 2))
    machine.handle(TurnBegun())
    assert machine.handle(Processed(1, is_done=True, ends_turn=True)) == [Wake()]


def test_the_memory_of_idle_actors_is_bounded() -> None:
    machine = scheduler()
    for number in range(IDLE_ACTORS_MAX + 10):
        send(machine, (f"{number}", number))
        turn(machine)
    assert len(machine._idle) == IDLE_ACTORS_MAX
    assert not machine._actors


keys = st.sampled_from("abcdef")
steps = st.one_of(
    st.tuples(st.just("send"), keys, st.integers(0, 12)),
    st.tuples(st.just("turn"), keys, st.integers(0, 3 * QUOTA_US)),
    st.tuples(st.just("wait"), keys, st.integers(0, 50)),
    st.tuples(st.just("wake"), keys, st.just(0)),
    st.tuples(st.just("withdraw"), keys, st.integers(0, 3)),
)


class _World:
    """The fates of the messages of one history, and the wait of each ready actor for a turn."""

    def __init__(self, in_flight_max: int = 1) -> None:
        self.in_flight_max = in_flight_max
        self.machine = Scheduler(quota_us=QUOTA_US, mailbox_max=5, cost_max=20, in_flight_max=in_flight_max)
        self.waiting: dict[str, list[int]] = {key: [] for key in "abcdef"}
        self.begun: dict[str, list[int]] = {key: [] for key in "abcdef"}
        self.woken: set[int] = set()
        self.ends: Counter[int] = Counter()
        self.sent = 0
        self.turns_waited: Counter[str] = Counter()
        self.is_woken = False

    def step(self, kind: str, key: str, number: int) -> None:
        if kind == "send":
            self._send(key, number)
        elif kind in ("turn", "wait"):
            self._turn(number, waits=kind == "wait")
        elif kind == "wake":
            self._wake(key)
        elif kind == "withdraw" and len(self.waiting[key]) > number:
            self._withdraw(key, self.waiting[key][number])
        self.machine.check_invariants()

    def _send(self, key: str, cost: int) -> None:
        self.sent += 1
        instructions = self.machine.handle(Sent(key, self.sent, cost))
        self._note(instructions)
        if Refuse(self.sent, "mailbox_max", 5) in instructions:
            assert len(self.waiting[key]) + len(self.begun[key]) == 5
            self.ends[self.sent] += 1
        else:
            self.waiting[key].append(self.sent)

    def _wake(self, key: str) -> None:
        for message in set(self.begun[key]) - self.woken:
            self.woken.add(message)
            self._note(self.machine.handle(Woken(key, message)))
            return

    def _withdraw(self, key: str, message: int) -> None:
        self._note(self.machine.handle(Withdrawn(key, message)))
        self.waiting[key].remove(message)
        self.ends[message] += 1

    def _turn(self, used_us: int, waits: bool) -> None:
        if not self.is_woken:
            return
        self.is_woken = False
        ready = self.ready()
        instructions = self.machine.handle(TurnBegun())
        ran: str | None = None
        while instructions and isinstance(instructions[0], Process):
            ran, message = str(instructions[0].key), instructions[0].message
            if message in self.woken:
                self.woken.discard(message)
            else:
                assert ran in ready
                assert self.waiting[ran][0] == message, "in the order in which they were sent"
                self.begun[ran].append(self.waiting[ran].pop(0))
            if not waits:
                self.begun[ran].remove(message)
                self.ends[message] += 1
            instructions = self.machine.handle(Processed(used_us, is_done=not waits))
        self._note(instructions)
        if ran is not None:
            for key in ready - {ran}:
                self.turns_waited[key] += 1
            self.turns_waited[ran] = 0

    def ready(self) -> set[str]:
        return {key for key, held in self.waiting.items() if held and len(self.begun[key]) < self.in_flight_max}

    def _note(self, instructions: list[Instruction]) -> None:
        self.is_woken = self.is_woken or Wake() in instructions
        for key in "abcdef":
            if key not in self.ready():
                self.turns_waited[key] = 0

    def drain(self) -> None:
        """Everything on its way comes; in so many turns everything must be done."""
        for key in "abcdef":
            for _ in list(self.begun[key]):
                self.step("wake", key, 0)
        for _ in range(len(self.machine)):
            assert self.is_woken
            self.step("turn", "a", QUOTA_US)


@given(st.lists(steps, max_size=150), st.integers(1, 3))
def test_over_any_history_nothing_is_lost_and_every_message_ends_once(
    history: list[tuple[str, str, int]], in_flight_max: int
) -> None:
    world = _World(in_flight_max)
    for step in history:
        world.step(*step)
    world.drain()
    assert not any(world.waiting.values())
    assert len(world.machine) == 0
    assert world.machine.cost_begun == 0
    assert set(world.ends) == set(range(1, world.sent + 1))
    assert set(world.ends.values()) <= {1}


@given(st.lists(steps, max_size=200))
def test_over_any_history_a_ready_actor_waits_for_each_other_once_at_most(
    history: list[tuple[str, str, int]],
) -> None:
    """Where there is room, and no turn is longer than its quota: a long one is made up for."""
    world = _World()
    for kind, key, number in history:
        if kind not in ("wait", "wake"):
            world.step(kind, key, 1 if kind == "turn" else number)
            assert max(world.turns_waited.values(), default=0) <= 5, "five others"


@pytest.mark.parametrize("newcomers", [0, 1])
def test_with_newcomers_in_every_turn_all_share_alike(newcomers: int) -> None:
    machine = scheduler()
    ran: Counter[str] = Counter()
    send(machine, ("a", 1), ("b", 2))
    for number in range(3, 900, 9):
        send(machine, *[(f"n{number + place}", number + place) for place in range(newcomers)])
        for key, _ in turn(machine, QUOTA_US):
            ran[str(key)[0]] += 1
            if key in ("a", "b"):
                send(machine, (str(key), number + 8))
    assert ran["a"] + ran["b"] + ran["n"] == 100
    assert abs(ran["a"] - ran["b"]) <= 1
    assert ran["a"] >= (50 if newcomers == 0 else 5)
