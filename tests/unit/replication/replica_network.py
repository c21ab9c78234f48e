"""Nodes with real replicas of one group: simulated disks, links that lose what is on its way, and a register.

Strategy: nothing happens by itself. Each step of a history ends a turn, does or tells a piece of blocking work, brings
a message, lets time pass, or lets something fail. Tasks of the replicas run between two steps.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from tests.unit.journal.stage import DIRECTORY, SMALL, Append, Steps, append_batch, records_of

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import Replicator
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead
from hutong.replication.driver import GroupReplica
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.leading.messages import ProposeSet
from hutong.replication.replica_messages import ReplicaMessage
from hutong.replication.settings import ReplicationSettings
from hutong.testing.disks.simulated import SimDisk
from hutong.wire.kafka.batch.records import Record, build_batch

GROUP = "days"
LOG = 1
ROOMY = replace(SMALL, dirty_bytes_max=1 << 16, cached_bytes_max=2048, region_bytes=1 << 12, chunk_bytes_max=1 << 9)
TIGHT = ReplicationSettings(ship_bytes_max=1 << 10, shipped_bytes_max=1 << 12, unstored_bytes_max=1 << 13)


class Endpoint:
    """One side of a link: what arrives here, in order. It is open from its first message on."""

    def __init__(self) -> None:
        self.arriving: deque[Callable[[], None]] = deque()
        self.is_open = False


class Link:
    """A connection of two nodes; each hears of its end for itself."""

    def __init__(self, first: "Node", second: "Node") -> None:
        self.is_up = True
        self.nodes = {first.number: first, second.number: second}
        self.sides = {first.number: Endpoint(), second.number: Endpoint()}
        for here, there in ((first, second), (second, first)):
            self.sides[here.number].arriving.append(partial(self._opened, here, there, there.incarnation))

    def other(self, number: int) -> int:
        (other,) = self.nodes.keys() - {number}
        return other

    def _opened(self, here: "Node", there: "Node", incarnation: int) -> None:
        self.sides[here.number].is_open = True
        here.replica.link_opened(there.number, incarnation)

    def send(self, sender: "Node", message: ReplicaMessage) -> None:
        receiver = self.nodes[self.other(sender.number)]
        if self.is_up and self.sides[sender.number].is_open:
            self.sides[receiver.number].arriving.append(lambda: receiver.replica.told(sender.number, message))

    def deliver(self, number: int) -> None:
        """Bring the next thing to a node: a message, or the end."""
        side = self.sides[number]
        if self.is_up and side.arriving:
            side.arriving.popleft()()
        elif not self.is_up:
            self.hear_end(number)

    def end(self) -> None:
        """Lose everything on its way. Either side hears of it later."""
        self.is_up = False
        for side in self.sides.values():
            side.arriving.clear()

    def hear_end(self, number: int) -> None:
        side, node = self.sides[number], self.nodes[number]
        if side.is_open:
            side.is_open = False
            if node.is_up:
                node.replica.link_closed(self.other(number))


class Node:
    """One node and its present life; also the links and events of its replica."""

    def __init__(self, network: "Network", number: int) -> None:
        self.network = network
        self.number = number
        self.disk = SimDisk()
        self.origin = number
        self.incarnation = 0
        self.is_up = self.stays_down = False
        self.led_epochs: list[int] = []
        self.is_led = False
        self.committed_position = 0
        self.errors: list[HutongError] = []

    # -- its life

    def start(self) -> None:
        """Begin a life; its replica is opened by a task."""
        self.incarnation += 1
        self.is_up, self.is_led = True, False
        self.turns: deque[Callable[[], None]] = deque()
        self.steps = Steps()
        self.wheel = TimerWheel(self.network.clock.monotonic_ms())
        self.replica = GroupReplica(
            GROUP,
            self.number,
            self.incarnation,
            open_journal=self._open_journal,
            links=self,
            events=self,
            clock=self.network.clock,
            timers=self.wheel,
            offload=self.steps,
            disk=self.disk,
            settings=TIGHT,
            origin=self.origin,
        )
        self.opening = asyncio.get_running_loop().create_task(self.replica.open())

    async def _open_journal(self, _: str, replicator: Replicator, refusal: HutongError) -> Journal:
        return await Journal.open(
            DIRECTORY,
            disk=self.disk,
            offload=self.steps,
            clock=self.network.clock,
            timers=self.wheel,
            settings=ROOMY,
            call_soon=self.turns.append,
            replicator=replicator,
            refusal=refusal,
            node=self.origin,
        )

    @property
    def journal(self) -> Journal:
        return self.replica.journal

    def lose_power(self, random: Random) -> None:
        self.is_up = False
        for task in (self.opening, self.replica._reopening):
            if task is not None:
                task.cancel()
        if self.replica._role is not None:
            self.replica._role.end()
        if hasattr(self.replica, "journal"):
            self.journal.abort()
        for link in self.network.links_of(self):
            link.end()
            link.sides[self.number].is_open = False
        self.disk.crash(random)

    def run(self, random: Random) -> None:
        """End the turn, and perhaps do a piece of work, and tell one."""
        for _ in range(len(self.turns)):
            self.turns.popleft()()
        if random.random() < 0.6:
            self.steps.work()
        self.steps.tell()

    def learn(self) -> None:
        """Hear of the register's state."""
        self.replica.apply(self.network.register)

    def produce(self, value: bytes, qos: Qos = Qos.ALL, key: bytes | None = None) -> Append:
        append = Append([value])
        content = build_batch([Record(timestamp_ms=self.network.clock.wall_ms(), key=key, value=value)])
        append_batch(self.journal.log(LOG), content, qos, append.outcomes.append)
        return append

    def read_all(self) -> list[tuple[int, bytes]]:
        """Every visible record as (offset, value)."""
        log, found = self.journal.log(LOG), []
        offset = log.start_offset
        while offset < log.high_watermark:
            batches = log.read(offset, 1 << 20)
            buffers = log.read_from_page_cache(batches) if isinstance(batches, DiskRead) else batches.buffers
            if buffers is None:
                assert isinstance(batches, DiskRead)
                buffers = self._read_from_disk(batches)
            found += [record for record in records_of(buffers) if record[0] >= offset]
            offset = found[-1][0] + 1
        return found

    def _read_from_disk(self, read: "DiskRead[list[memoryview]]") -> list[memoryview]:
        outcomes: list[list[memoryview] | HutongError] = []
        self.journal.log(LOG).read_from_disk(read, outcomes.append)
        while not outcomes:
            self.steps.work()
            self.steps.tell()
        assert isinstance(outcomes[0], list), outcomes[0]
        return outcomes[0]

    # -- links

    def is_open(self, node: int) -> bool:
        return any(link.sides[self.number].is_open for link in self.network.links_between(self.number, node))

    def send(self, node: int, message: ReplicaMessage) -> None:
        for link in self.network.links_between(self.number, node):
            link.send(self, message)

    # -- events

    def journal_opened(self, _: str, journal: Journal) -> None:
        assert not self.is_led
        self.committed_position = max(self.committed_position, journal.progress.committed_position)

    def led(self, _: str, epoch: int) -> None:
        assert epoch not in self.led_epochs, "led twice in an epoch"
        assert self.replica.is_leading
        assert not self.is_led
        self.led_epochs.append(epoch)
        self.is_led = True

    def stepped_down(self, _: str) -> None:
        assert self.is_led
        assert not self.replica.is_leading
        self.is_led = False

    def committed(self, _: str, position: int) -> None:
        assert self.journal.progress.committed_position >= position
        self.committed_position = max(position, self.committed_position)

    def propose(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        self.network.proposals.append((self, self.incarnation, state.epoch, proposal))

    def journal_failed(self, _: str, error: HutongError) -> None:
        self.errors.append(error)


class Network:
    """The nodes, their links and the register."""

    def __init__(self, seed: int, nodes: int = 3, min_in_sync: int = 2) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.links: list[Link] = []
        self.proposals: deque[tuple[Node, int, int, ProposeSet]] = deque()
        self.appends: list[Append] = []
        self.values_total = 0
        self.seen: dict[int, bytes] = {}  # by anybody who ever read, by its offset
        self.disks_lost_total = 0
        self.trim_share = self.random.choice((0.0, 0.01, 0.05))
        self.faults_share = self.random.choice((0.001, 0.005, 0.02))
        numbers = tuple(range(1, nodes + 1))
        in_sync = frozenset(numbers)
        self.register = PartitionGroupState(GROUP, 0, 0, -1, -1, numbers, in_sync, frozenset(), min_in_sync)
        self.nodes = {number: Node(self, number) for number in numbers}
        for node in self.nodes.values():
            node.start()
        self.elect(1)

    # -- the register

    def elect(self, number: int) -> None:
        """Any member of the set may lead."""
        register = self.register
        assert number in register.in_sync
        self.register = replace(
            register,
            epoch=register.epoch + 1,
            version=register.version + 1,
            leader=number,
            leader_incarnation=self.nodes[number].incarnation,
        )

    def decide(self) -> None:
        """Take the oldest proposal if it is of the present version."""
        if not self.proposals:
            return
        node, incarnation, epoch, proposal = self.proposals.popleft()
        register = self.register
        alive = {(each.number, each.incarnation) for each in self.nodes.values() if each.is_up}
        is_present = (epoch, proposal.version) == (register.epoch, register.version)
        if is_present and proposal.followers <= alive:
            in_sync = frozenset({node.number, *(member for member, _ in proposal.followers)})
            self.register = replace(register, version=register.version + 1, in_sync=in_sync)
        elif node.is_up and node.incarnation == incarnation:
            node.replica.proposal_refused(proposal.version)

    # -- links

    def links_between(self, first: int, second: int) -> list[Link]:
        return [link for link in self.links if link.nodes.keys() == {first, second}]

    def links_of(self, node: Node) -> list[Link]:
        return [link for link in self.links if node.number in link.nodes]

    def connect(self, first: Node, second: Node) -> None:
        """Make a link, once both have heard of the end of the one before."""
        for link in self.links_between(first.number, second.number):
            if link.is_up or any(side.is_open for side in link.sides.values()):
                return
            self.links.remove(link)
        if first.is_up and second.is_up:
            self.links.append(Link(first, second))

    # -- steps

    async def step(self, *, is_calm: bool = False) -> None:
        """One thing happens, or after faults are over, none of the bad ones."""
        random = self.random
        node, other = random.sample([*self.nodes.values()], 2)
        steps: list[Callable[[], object]] = [self.pass_time, self.decide]
        if node.is_up:
            steps += [node.learn, lambda: self.connect(node, other)]
            steps += [lambda: self.deliver(node)] * 4 + [lambda: node.run(random)] * 4
        elif not node.stays_down:
            steps += [node.start] * 3
        if node.is_up and node.is_led and not is_calm:
            steps += [lambda: self.produce(node)] * 4
        if not is_calm and random.random() < self.faults_share:
            steps = [lambda: self.cut_links(node), lambda: node.lose_power(random) if node.is_up else None]
        elif node.is_up and random.random() < 0.01:
            steps = [lambda: self.consume(node)]
        elif node.is_up and node.is_led and random.random() < self.trim_share:
            steps = [lambda: self.trim(node)]
        elif not node.is_up and node.number not in self.register.in_sync and random.random() < 0.2:
            steps = [lambda: self.lose_disk(node)]
        if self.may_lead(node, is_calm=is_calm):
            steps.append(lambda: self.elect(node.number))
        random.choice(steps)()
        for _ in range(3):
            await asyncio.sleep(0)

    def consume(self, node: Node) -> None:
        """Read everything that a node shows: nothing of it may ever change."""
        if node.replica._is_open:
            for offset, value in node.read_all():
                assert self.seen.setdefault(offset, value) == value, "two consumers have seen different records"

    def produce(self, node: Node) -> None:
        self.values_total += 1
        self.appends.append(node.produce(b"%d" % self.values_total))
        if self.random.random() < 0.7:
            node.run(self.random)

    def trim(self, node: Node) -> None:
        """Delete the oldest records: what is left of a segment goes with them."""
        log = node.journal.log(LOG)
        log.delete_before(self.random.randint(log.start_offset, log.high_watermark))

    def lose_disk(self, node: Node) -> None:
        """Nothing was promised by a node that is not in sync."""
        node.disk = SimDisk()
        node.origin += 10
        self.disks_lost_total += 1

    def may_lead(self, node: Node, *, is_calm: bool) -> bool:
        leader = self.nodes[self.register.leader]
        is_needed = not leader.is_up or leader.incarnation != self.register.leader_incarnation
        is_chance = not is_calm and self.random.random() < self.faults_share
        return node.is_up and node.number in self.register.in_sync and (is_needed or is_chance)

    def deliver(self, node: Node) -> None:
        links = self.links_of(node)
        for _ in range(self.random.randint(1, 3) if links else 0):
            self.random.choice(links).deliver(node.number)

    def cut_links(self, node: Node) -> None:
        for link in self.links_of(node):
            link.end()

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice((1, 20, 200)))
        for node in self.nodes.values():
            if node.is_up:
                node.wheel.advance(self.clock.monotonic_ms())

    # -- the end

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Go on without faults."""
        for _ in range(20_000):
            if is_so():
                return
            await self.step(is_calm=True)
        raise AssertionError("the group does not come to rest")

    async def heal(self) -> None:
        """End all faults, and let everything come to rest."""
        await self.until(self.is_at_rest)

    def is_at_rest(self) -> bool:
        leader = self.nodes[self.register.leader]
        # A member that has just died stays one for a moment.
        are_up = all(node.is_up and node.opening.done() for node in self.nodes.values())
        if not are_up or not leader.is_led or self.register.in_sync != self.nodes.keys():
            return False
        end = leader.journal.position
        return not leader.turns and all(
            node.journal.progress.committed_position == end == node.journal.position for node in self.nodes.values()
        )

    def acknowledged(self, start_offset: int = 0) -> list[bytes]:
        """The values that were acknowledged at ALL, without those that were deleted."""
        outcomes = [(append.values[0], append.outcome) for append in self.appends]
        return [
            value
            for value, outcome in outcomes
            if isinstance(outcome, Appended) and outcome.base_offset >= start_offset
        ]

    async def end(self) -> None:
        """Give everything back."""
        for node in self.nodes.values():
            if node.is_up:
                node.lose_power(self.random)
        await asyncio.sleep(0)
