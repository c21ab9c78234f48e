"""A state log on three nodes, in memory: taken, committed, heard of, cut and trimmed as the test says.

Items of a stream are batches and trims. An item is committed once every node has taken it.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hutong.broker.state.state_tail import TailPace
from hutong.broker.state.state_topic import StateTopic, records_in
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone, Refused, StorageError
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.batch.records import parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode

NOT_CONTROLLER = Refused(ErrorCode.NOT_CONTROLLER, "Another node leads.")


@dataclass(frozen=True)
class Item:
    """A batch that begins at an offset, or the statement that the log begins there."""

    offset: int
    batch: bytes | None
    number: int  # among all that were ever written: two leaders write different items

    @property
    def end_offset(self) -> int:
        return self.offset + (0 if self.batch is None else parse_batch_header(self.batch).record_count)


class ReplicaLog:
    """One node's log since it was opened. Implements `FollowedStorage`."""

    written = 0

    def __init__(self, items: Sequence[Item] = (), heard: int = 0) -> None:
        self.items: list[Item] = []
        self.heard = heard  # so many items are committed, as far as the node knows
        self.start_offset = 0
        self.end_offset = 0
        self.waiting: deque[tuple[int, Continuation[None]]] = deque()
        self.reads: deque[Callable[[], None]] = deque()
        self.is_gone = False
        self.reads_wait = True
        self._watchers: dict[Callable[[], None], None] = {}
        for item in items:
            self.take(item)

    def take(self, item: Item) -> None:
        self.items.append(item)
        if item.batch is None:
            self.start_offset = max(self.start_offset, item.offset)
        self.end_offset = max(self.end_offset, item.end_offset)

    def hear(self, committed: int) -> None:
        """Learn that so many items are committed."""
        if committed <= self.heard:
            return
        self.heard = committed
        for watcher in list(self._watchers):
            watcher()
        while self.waiting and self.waiting[0][0] <= committed:
            self.waiting.popleft()[1](None)

    # -- what a topic calls

    @property
    def committed_offset(self) -> int:
        return max([self.start_offset, *(item.end_offset for item in self.items[: self.heard])])

    def append(self, batch: bytes, then: Continuation[None], late: Callable[[], None] | None = None) -> None:
        self._write(self.end_offset, batch)
        self.waiting.append((len(self.items), then))

    def trim_before(self, offset: int) -> None:
        self._write(offset, None)

    def _write(self, offset: int, batch: bytes | None) -> None:
        ReplicaLog.written += 1
        self.take(Item(offset, batch, ReplicaLog.written))

    def watch(self, callback: Callable[[], None]) -> None:
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    async def read(self, offset: int) -> Sequence[memoryview]:
        return self._found(offset)

    def read_committed(self, offset: int, then: Continuation[Sequence[memoryview]]) -> None:
        if self.reads_wait:
            self.reads.append(lambda: then(self._outcome(offset)))
        else:
            then(self._outcome(offset))

    def _outcome(self, offset: int) -> Sequence[memoryview] | HutongError:
        if self.is_gone:
            return OwnerGone("the journal is closed")
        return StorageError("trimmed since") if offset < self.start_offset else self._found(offset)

    def _found(self, offset: int) -> Sequence[memoryview]:
        for item in self.items:
            if item.batch is not None and item.offset <= offset < item.end_offset:
                return [memoryview(item.offset.to_bytes(8, "big") + item.batch[8:])]
        return []


class Node:
    """A topic on one node, and what its user has been told."""

    def __init__(self) -> None:
        self.turns: deque[Callable[[], None]] = deque()
        self.log = ReplicaLog()
        self.map: dict[bytes, bytes] = {}
        self.times: Counter[bytes] = Counter()  # each value was told
        self.pace = TailPace(self.turns.append, lambda _ms, call: self.turns.append(call))
        self.topic = StateTopic("__state", self.log, ManualClock(), garbage_floor_bytes=150, slice_bytes=60)
        self.topic.on_record = self.topic.on_late = self.note
        self.lead = self.topic.when_leading  # a test with other users of the topic has its own
        self.has_other_users = False

    def note(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.map.pop(key, None)
        else:
            self.map[key] = value
            self.times[value] += 1

    def reopen(self, items: Sequence[Item], heard: int) -> None:
        """The journal was closed, cut and opened again."""
        self.log.is_gone = True
        self.log = ReplicaLog(items, heard)
        self.topic.follow(self.log, NOT_CONTROLLER, self.pace)

    def turn(self) -> bool:
        """Do one thing that is due."""
        if self.log.reads:
            self.log.reads.popleft()()
        elif self.turns:
            self.turns.popleft()()
        else:
            return False
        self.check()
        return True

    def check(self) -> None:
        self.topic.check_invariants()
        if self.has_other_users:
            return
        assert self.map == dict(self.topic.live)
        assert all(times == 1 for times in self.times.values()), "each change is told once"


class Replicas:
    """Three nodes, the first of which leads."""

    def __init__(self) -> None:
        self.nodes = [Node(), Node(), Node()]
        self.leader = self.nodes[0]
        self.committed = 0
        self.outcomes: dict[bytes, HutongError | None] = {}  # of each append, by its value
        for node in self.nodes[1:]:
            node.topic.follow(node.log, NOT_CONTROLLER, node.pace)

    def append(self, key: bytes, value: bytes | None, name: bytes) -> None:
        """Append by whoever leads; the user applies it when it is told of success."""
        node = self.leader

        def appended(error: HutongError | None) -> None:
            assert name not in self.outcomes, "told twice"
            self.outcomes[name] = error
            if error is None:
                node.note(key, value)

        node.topic.append(key, value, appended)

    def replicate(self, node: Node, count: int = 1) -> None:
        """The node takes items of the leader's log."""
        have = len(node.log.items)
        for item in self.leader.log.items[have : have + count]:
            node.log.take(item)

    def commit(self) -> None:
        """The leader learns what all have."""
        self.committed = min(len(node.log.items) for node in self.nodes)
        self.leader.log.hear(self.committed)

    def hear(self, node: Node) -> None:
        if node is not self.leader:
            node.log.hear(min(self.committed, len(node.log.items)))

    def fail_over(self, node: Node) -> None:
        """Another node leads, or the same one again; logs that have more than it are cut."""
        old, self.leader = self.leader, node
        old.topic.step_down(NOT_CONTROLLER)
        truth = node.log.items
        for each in self.nodes:
            common = next(
                (n for n, (a, b) in enumerate(zip(each.log.items, truth, strict=False)) if a != b),
                min(len(each.log.items), len(truth)),
            )
            if each is old or common < len(each.log.items):
                each.reopen(truth[:common], min(each.log.heard, common))
        truth = node.log.items
        for each in self.nodes:
            self.replicate(each, len(truth))
        self.commit()
        outcomes: list[HutongError | None] = []
        node.lead(outcomes.append)
        while not outcomes:
            assert node.turn(), "it never leads"
        assert outcomes == [None]

    def settle(self) -> None:
        """Everything is taken, committed and applied everywhere."""
        while True:
            before = self.committed, len(self.leader.log.items)
            for node in self.nodes:
                self.replicate(node, len(self.leader.log.items))
            self.commit()
            for node in self.nodes:
                self.hear(node)
                while node.turn():
                    pass
            if before == (self.committed, len(self.leader.log.items)) and self.committed == before[1]:
                break

    def model(self) -> dict[bytes, bytes]:
        """The map by all that was ever committed, and, the same, by what the log still has."""
        whole, kept = self._map_from(0), self._map_from(self.leader.log.start_offset)
        assert whole == kept, "a trim has lost something"
        return whole

    def _map_from(self, offset: int) -> dict[bytes, bytes]:
        found: dict[bytes, bytes | None] = {}
        for item in self.leader.log.items:
            if item.batch is not None:
                for record, key in records_in(
                    "model", [memoryview(item.offset.to_bytes(8, "big") + item.batch[8:])], offset
                ):
                    found[key] = record.value
        return {key: value for key, value in found.items() if value is not None}
