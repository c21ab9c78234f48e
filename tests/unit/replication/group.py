"""A partition group on three nodes in one process: real journals and machines, a network and a register by chance.

Strategy: everything that a driver and a cluster do is here in its simplest form. Messages of a connection keep their
order; connections end at any time; nodes lose their power and come back; a node is made the leader while another one
still believes that it is. Nobody but the register decides, by compare-and-set (KIP-497).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.stage import DIRECTORY, SMALL, Append

from hutong.foundation.errors import OwnerGone
from hutong.foundation.machine import Tick
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.replicate.truncation import truncate_journal
from hutong.replication.following import messages as following
from hutong.replication.following.machine import FollowerReplication
from hutong.replication.leading import messages as leading
from hutong.replication.leading.machine import LeaderReplication

ROOMY = replace(SMALL, cached_bytes_max=1 << 20, dirty_bytes_max=1 << 20, region_bytes=1 << 16)
LOG = 1


@dataclass(frozen=True, slots=True)
class Register:
    """The state of the group that the cluster agrees on. One life of a node leads, not the node."""

    epoch: int
    leader: int
    incarnation: int
    version: int
    in_sync: frozenset[int]


class Link:
    """A connection of a follower to a leader, with what is on its way in both directions."""

    def __init__(self, leader: "GroupNode", follower: "GroupNode", epoch: int) -> None:
        self.leader = leader
        self.follower = follower
        self.epoch = epoch
        self.to_follower: deque[Callable[[], None]] = deque()
        self.to_leader: deque[Callable[[], None]] = deque()
        self.is_open = True


class GroupNode:
    """One node: a journal, and a machine for its present role."""

    def __init__(self, group: "Group", number: int) -> None:
        self.group = group
        self.number = number
        self.stage = ReplicaStage(number, ROOMY)
        self.is_up = True
        self.incarnation = 1
        self.leader: LeaderReplication | None = None
        self.follower: FollowerReplication | None = None
        self.link: Link | None = None  # to the leader that it follows
        self.links: dict[int, Link] = {}  # of those that follow it
        self.known = group.register  # may be old
        self.begin_to_follow()

    # -- roles

    def begin_to_follow(self) -> None:
        """Also what a former leader does: its journal is opened anew."""
        self.leader = None
        self.disconnect_all()
        committed_position = self.stage.journal.progress.stored_position
        self.follower = FollowerReplication(
            lambda: self.stage.journal.epochs, self.stage.journal.position, committed_position
        )
        self.stage.journal.on_flushed(self.grew)

    def begin_to_lead(self, register: Register) -> None:
        self.disconnect_all()
        self.follower = None
        self.stage.lead(register.epoch)
        self.stage.shipping.on_sealed = self.grew
        replicas = self._replicas_of(register)
        journal = self.stage.journal
        self.leader = LeaderReplication(self.number, replicas, journal.epochs, journal.position, self.group.now_ms)
        self.grew()

    def _replicas_of(self, register: Register) -> leading.ReplicaSet:
        return leading.ReplicaSet(register.epoch, register.version, register.in_sync, self.group.min_in_sync)

    def learn(self, register: Register) -> None:
        """Hear of the register's state, perhaps late."""
        if (register.epoch, register.version) <= (self.known.epoch, self.known.version) or not self.is_up:
            return
        self.known = register
        if (register.leader, register.incarnation) == (self.number, self.incarnation):
            # It may have led before, with another node in between of which it has not heard.
            if self.leader is None or register.epoch > self.stage.journal.writer.leader_epoch:
                self.begin_to_lead(register)
            else:
                self.tell(leading.SetCommitted(self._replicas_of(register), self.group.now_ms))
            return
        if self.leader is not None:
            self.stage.journal.abort()
            self.stage.open()
            self.begin_to_follow()
        self.tell_follower(following.LeaderChosen(register.epoch))

    def lose_power(self, random: Random) -> None:
        self.is_up = False
        self.disconnect_all()
        self.leader = self.follower = None
        self.stage.crash(random)

    def start(self) -> None:
        self.is_up = True
        self.incarnation += 1
        self.stage.open()
        self.begin_to_follow()
        self.known = replace(self.known, version=-1)
        self.learn(self.group.register)

    # -- connections

    def connect(self) -> None:
        """Connect to whoever leads, by what this node knows."""
        leader = self.group.nodes.get(self.known.leader)
        if leader is None or leader is self or leader.leader is None or self.follower is None or self.link is not None:
            return
        if leader.number in self.group.cut_off or self.number in self.group.cut_off:
            return
        epoch = leader.stage.journal.writer.leader_epoch
        self.link = link = Link(leader, self, epoch)
        leader.links[self.number] = link
        self.tell_follower(following.LeaderConnected(epoch, self.group.now_ms))

    def disconnect(self) -> None:
        """End the connection to the leader."""
        link, self.link = self.link, None
        if link is None:
            return
        link.is_open = False
        if link.leader.links.get(self.number) is link:
            del link.leader.links[self.number]
            link.leader.tell(leading.FollowerLeft(self.number, self.group.now_ms))
        self.tell_follower(following.LeaderLost())

    def disconnect_all(self) -> None:
        self.disconnect()
        for link in list(self.links.values()):
            link.follower.disconnect()

    # -- machines

    def grew(self) -> None:
        journal = self.stage.journal
        if self.leader is not None:
            self.tell(leading.StreamGrew(journal.position, journal.flushed_position))
        elif self.follower is not None:
            is_flushing = journal.is_flushing
            event = following.ReplicaGrew(journal.position, journal.flushed_position, self.group.now_ms, is_flushing)
            self.tell_follower(event)

    def tell(self, event: leading.LeaderEvent) -> None:
        machine = self.leader
        if machine is None:
            return
        for instruction in machine.handle(event):
            self._obey_leader(instruction)
        if self.leader is machine:
            machine.check_invariants()
            self._check_commit(machine)

    def _check_commit(self, machine: LeaderReplication) -> None:
        """Check that all that the true leader calls committed is on the disk of each member."""
        register = self.group.register
        if register.leader == self.number and register.epoch == self.stage.journal.writer.leader_epoch:
            members = [self.group.nodes[number] for number in register.in_sync]
            for member in members:
                is_there = member.stage.journal.flushed_position >= machine.committed_position
                assert is_there or not member.is_up, "a member of the set lacks what is committed"

    def _obey_leader(self, instruction: leading.LeaderInstruction) -> None:
        match instruction:
            case leading.TellDivergence(node, epoch, end_position):
                self._send(node, following.Diverged(epoch, end_position))
            case leading.TellJoined(node, committed_position):
                self._send(node, following.JoinAccepted(committed_position, self.group.now_ms))
            case leading.Ship(node, start_position):
                self._ship(node, start_position)
            case leading.Replicated(held_position, stored_position):
                self.stage.shipping.progress.replicated(held_position, stored_position)
            case leading.TellCommitted(position):
                for node, link in self.links.items():
                    self._send(node, following.CommitArrived(link.epoch, position))
            case leading.ProposeSet():
                self.group.propose(self, instruction)
            case leading.ReplicasMissing():
                self.stage.shipping.progress.replication_failed(OwnerGone("too few replicas"))

    def _ship(self, node: int, start_position: int) -> None:
        end_position = self.stage.journal.position
        content = self.stage.stream_from(start_position, end_position)
        self._send(node, following.ChunksArrived(self.links[node].epoch, start_position, content))
        machine, shipped = self.leader, leading.Shipped(node, start_position, end_position)
        self.group.later(lambda: self.tell(shipped) if self.leader is machine else None)

    def _send(self, node: int, event: following.FollowerEvent) -> None:
        link = self.links.get(node)
        if link is not None:
            link.to_follower.append(lambda: link.follower.tell_follower(event))

    def tell_follower(self, event: following.FollowerEvent) -> None:
        machine = self.follower
        if machine is None:
            return
        for instruction in machine.handle(event):
            self._obey_follower(instruction)
        if self.follower is machine:
            machine.check_invariants()

    def _obey_follower(self, instruction: following.FollowerInstruction) -> None:
        now_ms = self.group.now_ms
        match instruction:
            case following.AskToJoin(end_position, last_epoch):
                joined = leading.FollowerJoined(self.number, self.incarnation, end_position, last_epoch, now_ms)
                self._answer(joined)
            case following.CutAt(position):
                self.group.cuts_total += 1
                self.stage.journal.abort()
                truncate_journal(self.stage.disk, DIRECTORY, position)
                self.stage.open()
                self.stage.journal.on_flushed(self.grew)
                self.tell_follower(following.JournalCut(self.stage.journal.position, now_ms))
            case following.TakeChunks(start_position, content):
                self.stage.journal.replica.append(start_position, content)
                self.grew()
            case following.AcknowledgeChunks(held_position, stored_position):
                self._answer(leading.Acknowledged(self.number, held_position, stored_position, now_ms))
            case following.NoteCommitted(position):
                self.stage.shipping.progress.replicated(position, position)
            case following.Disconnect():
                self.disconnect()

    def _answer(self, event: leading.LeaderEvent) -> None:
        link = self.link
        if link is not None:
            link.to_leader.append(lambda: link.leader.tell(event))

    def tick(self) -> None:
        """Only one of them has a machine."""
        self.tell(Tick(self.group.now_ms))
        self.tell_follower(Tick(self.group.now_ms))

    def produce(self, value: bytes) -> None:
        append = self.stage.append(LOG, value, qos=Qos.ALL)
        self.group.appends.append((value, append))


class Group:
    """The nodes, the register, and everything on its way."""

    def __init__(self, seed: int, nodes: int = 3, min_in_sync: int = 2) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.min_in_sync = min_in_sync
        self.faults_share = self.random.choice((0.01, 0.03, 0.1))
        numbers = range(1, nodes + 1)
        self.register = Register(0, 0, 0, 0, frozenset(numbers))
        self.cut_off: set[int] = set()
        self.appends: list[tuple[bytes, Append]] = []
        self.values_total = 0
        self.cuts_total = 0
        self.elections_total = 0
        self._later: deque[Callable[[], None]] = deque()
        self._proposals: deque[tuple[int, int, leading.ProposeSet]] = deque()
        self.nodes = {number: GroupNode(self, number) for number in numbers}
        self.elect(1)
        self.nodes[1].learn(self.register)

    def later(self, callback: Callable[[], None]) -> None:
        self._later.append(callback)

    # -- the register

    def elect(self, number: int) -> None:
        """Any member of the set may lead: nobody needs to be asked."""
        assert number in self.register.in_sync
        self.elections_total += 1
        incarnation, before = self.nodes[number].incarnation, self.register
        self.register = Register(before.epoch + 1, number, incarnation, before.version + 1, before.in_sync)

    def propose(self, node: GroupNode, proposal: leading.ProposeSet) -> None:
        self._proposals.append((node.number, node.stage.journal.writer.leader_epoch, proposal))

    def decide(self) -> None:
        """Take the oldest proposal if it is of the present version; the leader hears of the outcome later."""
        if not self._proposals:
            return
        number, epoch, proposal = self._proposals.popleft()
        node, register = self.nodes[number], self.register
        alive = {(each.number, each.incarnation) for each in self.nodes.values() if each.is_up}
        if (epoch, proposal.version) != (register.epoch, register.version) or not proposal.followers <= alive:
            self.later(lambda: node.tell(leading.ProposalRefused(proposal.version, self.now_ms)))
            return
        in_sync = frozenset({number, *(member for member, _ in proposal.followers)})
        self.register = replace(register, version=register.version + 1, in_sync=in_sync)
        self.later(lambda: node.learn(self.register))

    # -- steps

    def step(self, *, is_calm: bool = False) -> None:
        """One thing happens, or after faults are over, none of the bad ones."""
        random, node = self.random, self.random.choice([*self.nodes.values()])
        steps: list[Callable[[], Any]] = [self.pass_time, self.decide, self.run_later]
        steps += [node.connect, lambda: node.learn(self.register), lambda: self.deliver(node)] * 2
        steps += [lambda: self.deliver(node), lambda: self.flush(node)] * 3
        if node.leader is not None and node.is_up and not is_calm:
            steps += [lambda: self.produce(node)] * 2
        if not is_calm and random.random() < self.faults_share:
            steps = [node.disconnect, lambda: self.cut_off.symmetric_difference_update({node.number})]
            steps.append(lambda: node.lose_power(random) if node.is_up else None)
        if not node.is_up:
            steps += [node.start] * 3
        if self.may_lead(node, is_calm=is_calm):
            steps.append(lambda: self.elect(node.number))
        random.choice(steps)()

    def may_lead(self, node: GroupNode, *, is_calm: bool) -> bool:
        leader = self.nodes[self.register.leader]
        is_needed = not leader.is_up or leader.incarnation != self.register.incarnation
        is_chance = not is_calm and self.random.random() < self.faults_share
        return node.is_up and node.number in self.register.in_sync and (is_needed or is_chance)

    def produce(self, node: GroupNode) -> None:
        self.values_total += 1
        node.produce(b"%d" % self.values_total)
        if self.random.random() < 0.7:
            node.stage.turn()

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 20, 200))
        for node in self.nodes.values():
            for machine in (node.leader, node.follower):
                due_ms = machine.next_tick_ms() if machine is not None else None
                if due_ms is not None and due_ms <= self.now_ms:
                    node.tick()

    def run_later(self) -> None:
        if self._later:
            self._later.popleft()()

    def deliver(self, node: GroupNode) -> None:
        link = node.link
        if link is not None and link.is_open and not {link.leader.number, node.number} & self.cut_off:
            for queue in self.random.sample((link.to_follower, link.to_leader), 2):
                if queue and link.is_open:
                    queue.popleft()()

    def flush(self, node: GroupNode) -> None:
        if node.is_up:
            node.stage.turn()
            if self.random.random() < 0.5:
                node.stage.steps.work()
            node.stage.steps.tell()

    def heal(self) -> None:
        """End all faults, and let everything come to rest."""
        self.cut_off.clear()
        for _ in range(20_000):
            self.step(is_calm=True)
            if self.is_at_rest():
                return
        raise AssertionError("the group does not come to rest")

    def is_at_rest(self) -> bool:
        leader = self.nodes[self.register.leader]
        if leader.leader is None or self.register.in_sync != self.nodes.keys():
            return False
        end = leader.stage.journal.position
        return leader.leader.committed_position == end and all(
            node.stage.journal.progress.committed_position == end for node in self.nodes.values()
        )

    def acknowledged(self) -> list[bytes]:
        """The values that were acknowledged at ALL."""
        return [value for value, append in self.appends if isinstance(append.outcome, Appended)]
