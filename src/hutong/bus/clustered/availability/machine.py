"""Decides which verticles of its group one node runs.

Strategy: as Vert.x's HAManager, each node has an entry with its verticles, and for the entry of a node that has gone,
all nodes of its group compute the same successor. Other than there, everything follows from what is seen now and not
from what has changed; and a verticle changes its node with one transaction, which one node alone can make, and only
while the dead one is gone. So it belongs to exactly one node, however late anybody hears of it. A node that comes back
and finds its entry gone knows that its verticles run elsewhere.

A verticle is in the entry from the end of its first start on, also while it waits for a quorum.

Knows no ZooKeeper, no loop and no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hutong.bus.clustered.availability.entries import VERTICLES_MAX, HaVerticle, NodeEntry
from hutong.bus.clustered.availability.messages import (
    Accept,
    ClusterSeen,
    CutOff,
    DeployAsked,
    Drop,
    Event,
    Instruction,
    Leaving,
    NodeTakenOver,
    NoteFailover,
    NoteNoRoom,
    NoteQuorum,
    OperationFailed,
    OwnWritten,
    StartVerticle,
    StopVerticle,
    TakeOver,
    UndeployAsked,
    VerticleFailed,
    VerticleStarted,
    VerticleStopped,
    WriteOwn,
)


class VerticleState(Enum):
    """Of a verticle of this node."""

    WAITING = "waiting"  # for a quorum
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"  # its start; tried again with the next quorum, or by the next node


@dataclass(slots=True)
class _Owned:
    verticle: HaVerticle
    state: VerticleState = VerticleState.WAITING
    is_listed: bool = False  # in the entry, or to be there
    is_wanted: bool = True  # False: it is dropped once it does not run
    is_awaited: bool = False  # the program waits for its deployment
    reason: str = ""  # to stop it


@dataclass(frozen=True, slots=True)
class _Operation:
    """The change of entries that is under way."""

    written: tuple[HaVerticle, ...]
    dead: str | None = None
    taken: tuple[HaVerticle, ...] = ()


class AvailabilityMachine:
    """Of one node. It runs its verticles while its group has at least `quorum` nodes, this one among them."""

    def __init__(self, node: str, group: str, quorum: int) -> None:
        self._node = node
        self._group = group
        self._quorum = quorum
        self._owned: dict[str, _Owned] = {}
        self._nodes: frozenset[str] = frozenset()
        self._entries: dict[str, tuple[NodeEntry, int]] = {}
        self._version: int | None = None  # of the own entry
        self._written: tuple[HaVerticle, ...] | None = None  # in it, None where it is not there
        self._operation: _Operation | None = None
        self._doubtful: _Operation | None = None  # one of which nobody knows whether it was done
        self._is_informed = False  # what was seen is still so, as far as this node knows
        self._has_quorum = False
        self._is_leaving = False
        self._without_room: set[str] = set()  # dead nodes whose verticles are too many for this one

    @property
    def states(self) -> dict[str, VerticleState]:
        """Of each verticle of this node, by its id."""
        return {id: owned.state for id, owned in self._owned.items()}

    @property
    def has_quorum(self) -> bool:
        """Return True while verticles of the group may run here."""
        return self._has_quorum

    def handle(self, event: Event) -> Sequence[Instruction]:
        return [*self._take(event), *self._settle(), *self._operate()]

    def check_invariants(self) -> None:
        """Raise AssertionError for a state that no history leads to."""
        assert all(self._owned[id].verticle.id == id for id in self._owned), "each is kept under its own id"
        takes_over = self._operation is not None and self._operation.dead is not None
        assert not takes_over or self._version is not None, "a node without an entry takes nothing over"
        assert len(self._listed()) <= VERTICLES_MAX, "an entry has a bound"

    def _take(self, event: Event) -> list[Instruction]:
        match event:
            case ClusterSeen(nodes, entries):
                return self._seen(nodes, dict(entries))
            case CutOff():
                self._is_informed, self._nodes = False, frozenset([self._node])
                return self._count()
            case DeployAsked(verticle):
                self._owned[verticle.id] = _Owned(verticle, is_awaited=True)
            case UndeployAsked(id):
                self._give_up(id, "it is undeployed")
            case VerticleStarted() | VerticleFailed() | VerticleStopped():
                return self._changed(event)
            case OwnWritten(version):
                return self._ended(version)
            case NodeTakenOver(version):
                return self._ended(version)
            case OperationFailed():
                # What was written is not known, so nothing more is before the next look.
                self._doubtful, self._operation, self._is_informed = self._operation, None, False
            case Leaving():
                self._is_leaving = True
        return []

    # -- the cluster

    def _seen(self, nodes: frozenset[str], entries: dict[str, tuple[NodeEntry, int]]) -> list[Instruction]:
        assert self._operation is None, "what is seen during an operation may be older than it"
        self._nodes, self._entries, self._is_informed = nodes, entries, True
        self._without_room &= entries.keys() - nodes
        own = entries.get(self._node)
        doubtful, self._doubtful = self._doubtful, None
        # Others have removed it: they took this node for dead, and run what was in it, or may have been.
        if own is None:
            for verticle in (*(self._written or ()), *(() if doubtful is None else doubtful.written)):
                self._give_up(verticle.id, "another node has taken it over")
            self._version = self._written = None
            return self._count()
        self._version, self._written = own[1], own[0].verticles
        # It was done after all, and only the answer had been lost.
        taken = [] if doubtful is None else [each for each in doubtful.taken if each in self._written]
        return [*self._adopt(doubtful, taken), *self._accept(), *self._count()]

    def _count(self) -> list[Instruction]:
        """Find out whether there is a quorum."""
        count = len(self._members())
        # One that is not among the nodes has a session that is about to begin or has ended: others may act for it.
        is_attained = count >= self._quorum and self._node in self._nodes
        # Of a change alone.
        if is_attained == self._has_quorum:
            return []
        self._has_quorum = is_attained
        if not is_attained:
            for owned in self._owned.values():
                # Another machine, or this one in another state, may be able to.
                if owned.state is VerticleState.FAILED:
                    owned.state = VerticleState.WAITING
        return [NoteQuorum(is_attained, count)]

    def _members(self) -> list[str]:
        """The nodes of the group that are there, in the order that all of them see."""
        found = {node for node in self._nodes if self._group_of(node) == self._group}
        # Its own entry may not be written yet, or be out of reach.
        return sorted(found | ({self._node} & self._nodes))

    def _group_of(self, node: str) -> str | None:
        entry = self._entries.get(node)
        return None if entry is None else entry[0].group

    # -- verticles

    def _changed(self, event: VerticleStarted | VerticleFailed | VerticleStopped) -> list[Instruction]:
        owned = self._owned[event.id]
        match event:
            case VerticleStarted():
                owned.state, owned.is_listed = VerticleState.RUNNING, owned.is_wanted
            case VerticleFailed():
                owned.state = VerticleState.FAILED
                # The program hears of it, and decides. One of another node has nobody who could.
                owned.is_wanted = owned.is_wanted and not owned.is_awaited
            case VerticleStopped():
                owned.state = VerticleState.WAITING
        return []

    def _give_up(self, id: str, reason: str) -> None:
        owned = self._owned.get(id)
        if owned is not None:
            owned.is_wanted, owned.is_listed, owned.reason = False, False, reason

    def _settle(self) -> list[Instruction]:
        """Start what shall run, and stop what shall not."""
        instructions: list[Instruction] = []
        for id, owned in list(self._owned.items()):
            shall_run = owned.is_wanted and self._has_quorum
            match owned.state:
                case VerticleState.WAITING if shall_run and not self._is_leaving:
                    owned.state = VerticleState.STARTING
                    instructions.append(StartVerticle(owned.verticle))
                case VerticleState.RUNNING if not shall_run:
                    owned.state = VerticleState.STOPPING
                    instructions.append(StopVerticle(id, owned.reason or "there is no quorum"))
                case VerticleState.WAITING | VerticleState.FAILED if not owned.is_wanted:
                    del self._owned[id]
                    instructions.append(Drop(id))
        return instructions

    # -- entries

    def _listed(self) -> tuple[HaVerticle, ...]:
        return tuple([owned.verticle for owned in self._owned.values() if owned.is_listed])

    def _operate(self) -> list[Instruction]:
        """Begin the next change of entries, if one is due and none is under way."""
        if self._operation is not None or not self._is_informed or self._is_leaving:
            return []
        listed = self._listed()
        # First what this node itself has to say: a takeover then adds to it.
        if listed != self._written:
            self._operation = _Operation(listed)
            return [WriteOwn(listed, self._version)]
        instructions: list[Instruction] = []
        for node in sorted(self._entries.keys() - self._nodes) if self._has_quorum else ():
            entry, version = self._entries[node]
            # Each node of the group asks this for itself.
            if entry.group != self._group or self._successor_of(node) != self._node:
                continue
            # One in both entries was written by somebody else: no transaction does it.
            own = {verticle.id for verticle in listed}
            taken = tuple([verticle for verticle in entry.verticles if verticle.id not in own])
            if len(self._owned) + len(taken) > VERTICLES_MAX:
                if node not in self._without_room:
                    self._without_room.add(node)
                    instructions.append(NoteNoRoom(node, len(taken)))
                continue
            assert self._version is not None, "what is listed is written"
            self._operation = _Operation((*listed, *taken), node, taken)
            return [*instructions, TakeOver(node, version, (*listed, *taken), self._version)]
        return instructions

    def _ended(self, version: int) -> list[Instruction]:
        """The operation has been done."""
        operation, self._operation = self._operation, None
        assert operation is not None
        self._version, self._written = version, operation.written
        if operation.dead is not None:
            self._entries.pop(operation.dead, None)
        return [*self._adopt(operation, operation.taken), *self._accept()]

    def _adopt(self, operation: _Operation | None, taken: Sequence[HaVerticle]) -> list[Instruction]:
        """Have the verticles of a dead node, which the own entry has already."""
        for verticle in taken:
            # One that this node has given up may be about to stop: then it starts anew.
            owned = self._owned.setdefault(verticle.id, _Owned(verticle))
            owned.is_listed, owned.is_wanted, owned.reason = True, True, ""
        return [NoteFailover(operation.dead, len(taken))] if operation is not None and operation.dead and taken else []

    def _accept(self) -> list[Instruction]:
        """Tell the program of those that are in the entry now."""
        instructions: list[Instruction] = []
        for owned in self._owned.values():
            if owned.is_awaited and owned.verticle in (self._written or ()):
                owned.is_awaited = False
                instructions.append(Accept(owned.verticle.id))
        return instructions

    def _successor_of(self, node: str) -> str:
        """The node of the group that takes over the verticles of one that has gone, as Vert.x chooses it."""
        members = self._members()
        return members[(java_hash(node) + (1 << 31) - 1) % len(members)]


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: of 32 bits, with a sign."""
    data = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found
