"""Histories of nodes that come and go, with leaders that commit and controllers that change.

Every node has a log for each group, here a number: what is committed is stored by every member of the set. A leader
knows the state that it was told last, which may be an older one.
"""

import random
from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.controller.scene import Scene

from hutong.cluster import records, set_rules
from hutong.cluster.controller import repairs
from hutong.cluster.controller.commands import (
    BalanceGroups,
    ControllerCommand,
    DrainNode,
    ElectPreferred,
    ForgetNode,
    MoveGroup,
    UndrainNode,
)
from hutong.cluster.controller.machine import ControllerMachine
from hutong.cluster.controller.messages import LiveNode, ReplicaFailed, ReplicaShort, SetProposed
from hutong.cluster.set_rules import is_led
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.wire.kafka.error_codes import ErrorCode

NAMES = ("days", "hours", "offsets")
NODES = (1, 2, 3, 4, 5)


class History:
    """A controller, nodes that follow what it decides, and leaders among them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.scene = Scene(NAMES, preferred_wait_ms=500)
        self.incarnations = iter(range(100, 1_000_000))
        self.lives: dict[int, int] = {}
        self.known: dict[tuple[int, str], PartitionGroupState] = {}  # by node and group, as it was told last
        self.proposed: dict[tuple[int, str], tuple[int, frozenset[tuple[int, int]]]] = {}  # ticket, and who is in it
        self.stored: dict[tuple[int, str], int] = {}
        self.failed: set[tuple[int, int, str]] = set()  # node, its life, and the group whose journal has failed
        self.short: set[tuple[int, int, str]] = set()  # likewise, of those that have no space for now
        self.committed = dict.fromkeys(NAMES, 0)
        self.before: dict[str, PartitionGroupState] = {}
        for node in (1, 2, 3):
            self.start(node)
        self.look()

    # ---- the controller

    def look(self) -> None:
        """Let the controller see who lives."""
        self.scene.set_live({node: LiveNode(life) for node, life in self.lives.items()})
        self.check()

    def check(self) -> None:
        for name, state in self.scene.image.groups.items():
            before, self.before[name] = self.before.get(name), state
            if before is None or state is before:
                continue
            assert (state.epoch, state.version) > (before.epoch, before.version)
            may_be_members = before.in_sync | before.eligible | self.proposable(name)
            assert state.in_sync <= may_be_members, "somebody is in sync whom nobody proposed"
            if state.leader != NO_LEADER and state.epoch > before.epoch:
                has_all = self.stored.get((state.leader, name), 0) == self.committed[name]
                assert has_all, f"the leader of {name} lacks what is committed: {before} {state}"
            if state.epoch == before.epoch and NO_LEADER not in (state.leader, before.leader):
                assert (state.leader, state.leader_incarnation) == (before.leader, before.leader_incarnation)

    def proposable(self, name: str) -> set[int]:
        return {node for (_, group), (_, wanted) in self.proposed.items() if group == name for node, _ in wanted}

    def command(self) -> ControllerCommand:
        node, name = self.chance.choice(NODES), self.chance.choice(NAMES)
        live = sorted(self.scene.live) or [1]
        replicas = tuple(self.chance.sample(live, self.chance.randrange(1, min(len(live), 4) + 1)))
        return self.chance.choice((
            DrainNode(node), UndrainNode(node), UndrainNode(node), ForgetNode(node), MoveGroup(name, replicas),
            MoveGroup(name, ()), BalanceGroups(), ElectPreferred(),
        ))  # fmt: skip

    # ---- nodes

    def start(self, node: int) -> None:
        self.lives.setdefault(node, next(self.incarnations))

    def stop(self, node: int) -> None:
        self.lives.pop(node, None)
        for name in NAMES:
            self.known.pop((node, name), None)
            self.proposed.pop((node, name), None)

    def hear(self, node: int) -> None:
        """Let a node hear what the controller has decided."""
        for name, state in self.scene.image.groups.items():
            if node in self.lives and self.known.get((node, name)) != state:
                self.known[node, name] = state
                self.proposed.pop((node, name), None)
            reply = self.scene.reply(self.proposed.get((node, name), (0, frozenset()))[0])
            if reply is not None and not reply.is_taken:
                del self.proposed[node, name]

    def led(self, node: int, name: str) -> PartitionGroupState | None:
        """The state in which the node leads, as far as it knows."""
        state = self.known.get((node, name))
        if state is None or (state.leader, state.leader_incarnation) != (node, self.lives.get(node)):
            return None
        return None if self.has_failed(node, name) else state

    def has_failed(self, node: int, name: str) -> bool:
        return (node, self.lives.get(node, 0), name) in self.failed

    def fail(self, node: int, name: str) -> None:
        if node in self.lives:
            self.failed.add((node, self.lives[node], name))
            self.scene.feed(ReplicaFailed(node, self.lives[node], name, self.scene.now_ms))
            self.check()

    def fill(self, node: int, name: str, *, is_short: bool) -> None:
        if node in self.lives:
            life = node, self.lives[node], name
            (self.short.add if is_short else self.short.discard)(life)
            self.scene.feed(ReplicaShort(node, self.lives[node], name, is_short, self.scene.now_ms))
            self.check()

    def is_short(self, node: int, name: str) -> bool:
        return (node, self.lives.get(node, 0), name) in self.short

    def follows(self, node: int, name: str, epoch: int) -> bool:
        known = self.known.get((node, name))
        is_there = node in self.lives and not self.has_failed(node, name) and not self.is_short(node, name)
        return is_there and (known is None or known.epoch <= epoch)

    def propose(self, node: int, name: str, *, is_whole: bool = False) -> None:
        state = self.led(node, name)
        if state is None or (node, name) in self.proposed:
            return
        wanted = {
            each
            for each in state.replicas
            if each != node and (is_whole or self.chance.random() < 0.7) and self.follows(each, name, state.epoch)
        }
        for each in wanted - state.in_sync:
            self.stored[each, name] = max(self.stored.get((each, name), 0), self.stored.get((node, name), 0))
        self.send(node, name, state, frozenset((each, self.lives[each]) for each in wanted))

    def send(self, node: int, name: str, state: PartitionGroupState, followers: frozenset[tuple[int, int]]) -> None:
        ticket = 1_000_000 + next(self.incarnations)
        self.proposed[node, name] = (ticket, followers)
        now_ms = self.scene.now_ms
        self.scene.feed(
            SetProposed(ticket, node, self.lives[node], name, state.epoch, state.version, followers, now_ms)
        )
        self.check()

    def change_controller(self) -> None:
        """Begin with another controller, and let leaders that got no answer ask it the same."""
        self.scene.begin()
        for node, life, name in sorted(self.failed):
            self.scene.feed(ReplicaFailed(node, life, name, self.scene.now_ms))
        for node, life, name in sorted(self.short):
            self.scene.feed(ReplicaShort(node, life, name, True, self.scene.now_ms))
        self.look()
        for (node, name), (ticket, followers) in list(self.proposed.items()):
            state = self.led(node, name)
            if ticket not in self.scene.replies and state is not None:
                self.send(node, name, state, followers)

    def commit(self, node: int, name: str) -> None:
        state = self.led(node, name)
        if state is None or len(state.in_sync) < state.min_in_sync or self.is_short(node, name):
            return
        proposed = self.proposed.get((node, name), (0, frozenset()))[1]
        members = state.in_sync | {each for each, _ in proposed}
        if all(each == node or self.follows(each, name, state.epoch) for each in members):
            assert self.stored.get((node, name), 0) == self.committed[name], "two leaders commit"
            self.committed[name] += 1
            self.stored |= {(each, name): self.committed[name] for each in members}

    # ---- chance

    def step(self) -> None:
        self.scene.do_yield = self.chance.random() < 0.8
        self.scene.wait(self.chance.randrange(200))
        self.check()
        node, name = self.chance.choice(NODES), self.chance.choice(NAMES)
        kind = self.chance.choice((
            "start", "start", "stop", "look", "look", "hear", "hear", "hear", "propose", "propose",
            "commit", "commit", "command", "controller", "fail", "fill",
        ))  # fmt: skip
        if kind == "start":
            self.start(node)
        elif kind == "stop":
            self.stop(node)
        elif kind == "look":
            self.look()
        elif kind == "hear":
            self.hear(node)
        elif kind == "propose":
            self.propose(node, name)
        elif kind == "commit":
            self.commit(node, name)
        elif kind == "fail" and self.chance.random() < 0.3:
            self.fail(node, name)
        elif kind == "fill":
            self.fill(node, name, is_short=self.chance.random() < 0.5)
        elif kind == "command" and self.chance.random() < 0.3:
            self.scene.ask(self.command())
            self.check()
        elif kind == "controller" and self.chance.random() < 0.3:
            self.change_controller()

    def calm_down(self) -> None:
        self.scene.do_yield = True
        for node in NODES:
            if any((node, self.lives.get(node), name) in self.failed for name in NAMES):
                self.stop(node)
            self.start(node)
            for name in NAMES:
                self.fill(node, name, is_short=False)
        for _ in range(30):
            self.look()
            self.scene.wait(1_000)
            for node in NODES:
                self.hear(node)
                for name in NAMES:
                    self.propose(node, name, is_whole=True)
                    self.hear(node)
                    self.commit(node, name)


@given(st.integers(0, 2**32))
def test_no_history_loses_what_is_committed_and_every_group_recovers(seed: int) -> None:
    history = History(seed)
    for _ in range(200):
        history.step()
    for node in history.scene.image.drained.copy():
        assert history.scene.ask(UndrainNode(node)).error == ErrorCode.NONE
    history.calm_down()
    lives = history.lives
    for name, state in history.scene.image.groups.items():
        assert is_led(state, lives)
        assert state.in_sync == set(state.replicas)
        assert state.leader == state.replicas[0]
        assert len(state.replicas) >= 3
        assert history.committed[name] > 0
    assert history.scene.image.moves == {}


def anybody(state: PartitionGroupState, live: Collection[int], avoided: Collection[int] = ()) -> list[int]:
    return [node for node in state.replicas if node in live]


def elect_anybody(
    state: PartitionGroupState, node: int, incarnation: int, live: Collection[int]
) -> PartitionGroupState:
    members = state.in_sync.intersection(live) | {node}
    return replace(
        state,
        epoch=state.epoch + 1,
        version=state.version + 1,
        leader=node,
        leader_incarnation=incarnation,
        in_sync=members,
        eligible=state.eligible - members,
    )


def keep_eligible(state: PartitionGroupState, members: frozenset[int]) -> PartitionGroupState:
    return replace(state, in_sync=members, eligible=(state.eligible | state.in_sync) - members)


def keep_the_last_members_alone(state: PartitionGroupState, members: frozenset[int]) -> PartitionGroupState:
    """As if a set that is too small could commit: who leaves it is still eligible, and so is who left before."""
    return replace(state, in_sync=members, eligible=(state.eligible | state.in_sync) - members, min_in_sync=1)


BROKEN_RULES: dict[str, dict[str, object]] = {
    "any replica may lead": {"repairs.candidates": anybody, "repairs.elected": elect_anybody},
    "eligible nodes stay so when the set has grown": {"set_rules._with_members": keep_eligible},
    "a set of one commits": {"set_rules._with_members": keep_the_last_members_alone},
}
HISTORIES_MAX = 200


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_histories_miss_a_rule_that_is_left_out(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"repairs": repairs, "set_rules": set_rules}
    for name, broken in BROKEN_RULES[rule].items():
        module, function = name.split(".")
        monkeypatch.setattr(modules[module], function, broken)
    # Without the checks that would find the broken state itself.
    monkeypatch.setattr(ControllerMachine, "check_invariants", lambda self: None)
    monkeypatch.setattr(records, "problem_of", lambda state: None)
    with pytest.raises(AssertionError, match=r"lacks what is committed|two leaders commit|whom nobody proposed"):
        play(HISTORIES_MAX)


def play(count: int) -> None:
    for seed in range(count):
        history = History(seed)
        for _ in range(200):
            history.step()
