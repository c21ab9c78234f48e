"""A controller in a test: its machine with tickets, time and what it has stored."""

from collections.abc import Iterable

from hutong.cluster.controller.commands import CommandReply, ControllerCommand
from hutong.cluster.controller.handovers import YIELD_MS_MAX
from hutong.cluster.controller.machine import ControllerMachine
from hutong.cluster.controller.messages import (
    AskToYield,
    CommandAsked,
    ControllerEvent,
    LiveNode,
    NodesChanged,
    ProposalReply,
    SetProposed,
    StoreDecisions,
    Yielded,
)
from hutong.cluster.image import ClusterImage
from hutong.cluster.records import FoundingSettings
from hutong.foundation.machine import Answer, Tick
from hutong.replication.group_state import PartitionGroupState


class Scene:
    """`image` has all records that were stored: the next controller begins from it."""

    def __init__(
        self, names: Iterable[str] = (), *, replicas: int = 3, preferred_wait_ms: int = 1_000, min_in_sync: int = 0
    ) -> None:
        self.names = tuple(names)
        self.settings = FoundingSettings(replicas=replicas, min_in_sync=min_in_sync)
        self.preferred_wait_ms = preferred_wait_ms
        self.image = ClusterImage()
        self.live: dict[int, LiveNode] = {}
        self.now_ms = 0
        self.stored_total = 0
        self.asked: list[AskToYield] = []
        self.do_yield = True  # leaders do at once what they are asked to
        self.replies: dict[int, object] = {}
        self._tickets = iter(range(1, 1_000_000))
        self.begin()

    def begin(self) -> None:
        """Begin with another controller."""
        self.machine = ControllerMachine(
            self.image, self.settings, self.names, preferred_wait_ms=self.preferred_wait_ms
        )

    def feed(self, event: ControllerEvent) -> None:
        asked: list[AskToYield] = []
        for instruction in self.machine.handle(event):
            match instruction:
                case StoreDecisions(records):
                    self.stored_total += len(records)
                    for key, value in records:
                        self.image.apply(key, value)
                case Answer(ticket, reply):
                    assert ticket not in self.replies, "answered twice"
                    self.replies[ticket] = reply
                case AskToYield():
                    asked.append(instruction)
        self.machine.check_invariants()
        due_ms = self.machine.next_tick_ms()
        assert not isinstance(event, Tick) or due_ms is None or due_ms > self.now_ms, "the timer would never rest"
        assert self.image.groups == self.machine.decisions.groups
        self.asked += asked
        for each in asked if self.do_yield else ():
            self.feed(Yielded(each.group, each.epoch, self.now_ms))

    def nodes(self, *, racks: dict[int, str] | None = None, **incarnations: int) -> None:
        """Let these nodes live: `n1=10` is the life 10 of node 1."""
        self.set_live(
            {int(name[1:]): LiveNode(life, (racks or {}).get(int(name[1:]))) for name, life in incarnations.items()}
        )

    def set_live(self, live: dict[int, LiveNode]) -> None:
        self.live = live
        self.feed(NodesChanged(live, self.now_ms))

    def wait(self, milliseconds: int) -> None:
        """Let time pass, with each tick that is due."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.machine.next_tick_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.feed(Tick(self.now_ms))
        self.now_ms = end_ms

    def ask(self, command: ControllerCommand) -> CommandReply:
        ticket = next(self._tickets)
        self.feed(CommandAsked(ticket, command, self.now_ms))
        if ticket not in self.replies:  # leaders that do not yield are waited for
            self.wait(YIELD_MS_MAX)
        reply = self.replies[ticket]
        assert isinstance(reply, CommandReply)
        return reply

    def propose(
        self,
        group: str,
        followers: Iterable[int] | dict[int, int],
        *,
        version: int | None = None,
        node: int | None = None,
    ) -> int:
        """Propose as the present leader; returns the ticket."""
        ticket, state = next(self._tickets), self.state(group)
        lives = (
            {each: self.live[each].incarnation for each in followers} if not isinstance(followers, dict) else followers
        )
        leader = state.leader if node is None else node
        self.feed(
            SetProposed(
                ticket,
                leader,
                self.live[leader].incarnation if leader in self.live else 0,
                group,
                state.epoch,
                state.version if version is None else version,
                frozenset(lives.items()),
                self.now_ms,
            )
        )
        return ticket

    def reply(self, ticket: int) -> ProposalReply | None:
        reply = self.replies.get(ticket)
        assert reply is None or isinstance(reply, ProposalReply)
        return reply

    def catch_up(self) -> None:
        """Let every leader propose all of its live replicas, until nothing changes."""
        for _ in range(100):
            before = dict(self.image.groups)
            for name, state in sorted(before.items()):
                if state.leader in self.live:
                    wanted = [node for node in self.state(name).replicas if node in self.live and node != state.leader]
                    if {state.leader, *wanted} != self.state(name).in_sync:
                        self.propose(name, wanted)
            if before == self.image.groups:
                return
        raise AssertionError("the controller never rests")

    def state(self, name: str) -> PartitionGroupState:
        return self.image.groups[name]

    def leaders(self) -> dict[str, int]:
        return {name: state.leader for name, state in sorted(self.image.groups.items())}
