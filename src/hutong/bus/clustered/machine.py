"""The decisions of a clustered bus: which nodes receive at an address, and when to connect, ping, give up and retry.

    ABSENT        an answer waits for it, and its entry is not known yet
    IDLE          known; nothing was sent to it so far
    CONNECTING    messages wait for the connection, and for the answer to a ping on it
    CONNECTED     messages are sent; pings are due
    UNREACHABLE   it has an entry and cannot be connected to: it receives nothing, until a probe succeeds
    PROBING       the probe

Strategy: every node connects to each one that it sends to, and is connected to by each one that sends to it. Vert.x
sends to a dead node until its session has ended, and lets requests wait for their timeout. Here a node that cannot be
connected to leaves the rounds at once, what waits for it fails with the reason, and it is probed until it is back or
its entry is gone. A connection that stood and was lost is tried once at once: a restart of a line is no death.

A connection counts once a ping was answered, which names the node that it is for. For a node that was killed and is
back at the same place is another one, and the kernel of one that is stopped accepts connections for it.

Knows no messages, sockets or clock: times arrive with the events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.messages import (
    ClusterNodesChanged,
    Connect,
    Connected,
    ConnectFailed,
    DisconnectNode,
    Event,
    Fail,
    Forget,
    Instruction,
    NodeConnectionLost,
    Ping,
    PlaceRemote,
    PongReceived,
    ReferenceReceived,
    RegistrationsChanged,
    Release,
    Wanted,
)
from hutong.bus.clustered.permissions import EVERYTHING, ClusterRights
from hutong.foundation.machine import Tick
from hutong.wire.vertx.cluster_nodes import NodeInfo


class LinkState(Enum):
    """The states of another node, as seen from here."""

    ABSENT = "absent"
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    PROBING = "probing"


_OPENING = (LinkState.CONNECTING, LinkState.PROBING)
_RECEIVING = (LinkState.IDLE, LinkState.CONNECTING, LinkState.CONNECTED)


@dataclass(slots=True)
class OtherNode:
    """Another node. `due_ms` is the time of what happens next by itself, None where nothing does."""

    state: LinkState
    info: NodeInfo | None = None  # None while ABSENT
    due_ms: int | None = None
    connected_at_ms: int = 0
    is_pong_due: bool = False
    failures: int = 0  # attempts in succession
    reason: str = ""  # why it is UNREACHABLE


class ClusterMachine:
    """All other nodes, and what is registered at them. `node` is this node's id."""

    def __init__(self, node: str, limits: ClusteredLimits, rights: ClusterRights = EVERYTHING) -> None:
        self._node = node
        self._limits = limits
        self._rights = rights
        self._links: dict[str, OtherNode] = {}
        self._replaced: set[str] = set()  # nodes at whose places newer ones are
        self._counts: dict[str, Mapping[str, int]] = {}  # by address; none is empty
        self._addresses: dict[str, set[str]] = {}  # by node; none is empty
        self._placed: dict[str, tuple[tuple[str, int], ...]] = {}  # as the driver knows them; none is empty
        self._references: dict[str, int] = {}  # addresses of replies that the membership does not know, until when

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Wanted(node, now_ms):
                return self._wanted(node, now_ms)
            case RegistrationsChanged(address, counts):
                return self._change_registrations(address, counts)
            case ReferenceReceived(address, node, now_ms):
                return self._refer(address, node, now_ms)
            case ClusterNodesChanged(nodes, now_ms):
                return self._change_nodes(nodes, now_ms)
            case Connected(node, now_ms):
                return self._connected(node, now_ms)
            case ConnectFailed(node, reason, now_ms):
                return self._failed(node, reason, now_ms)
            case NodeConnectionLost(node, now_ms):
                return self._lost(node, now_ms)
            case PongReceived(node, now_ms):
                return self._answered(node, now_ms)
            case Tick(now_ms):
                return self._tick(now_ms)

    def next_tick_ms(self) -> int | None:
        due_ms = [link.due_ms for link in self._links.values() if link.due_ms is not None]
        return min([*due_ms, *self._references.values()], default=None)

    def state_of(self, node: str) -> LinkState | None:
        """None for a node that is not known."""
        link = self._links.get(node)
        return None if link is None else link.state

    @property
    def placed_addresses(self) -> list[str]:
        """The addresses at which other nodes receive."""
        return sorted(self._placed)

    @property
    def placed(self) -> Mapping[str, Mapping[str, int]]:
        """The other nodes that receive at each address, with their turns."""
        return {address: dict(turns) for address, turns in self._placed.items()}

    def check_invariants(self) -> None:
        for address, counts in self._counts.items():
            assert counts
            assert all(address in self._addresses[node] for node in counts)
            assert dict(self._placed.get(address, ())) == dict(self._turns(address))
        assert self._node not in self._links
        assert set(self._placed) <= set(self._counts)
        assert set(self._references) <= set(self._counts)
        assert len(self._references) <= self._limits.references_max
        assert sum([link.state is LinkState.ABSENT for link in self._links.values()]) <= self._limits.unknown_nodes_max
        for link in self._links.values():
            assert (link.info is None) == (link.state is LinkState.ABSENT)
            if link.state not in _OPENING:  # which is timed once the connection is open
                assert (link.state is LinkState.IDLE) == (link.due_ms is None)

    # -- nodes and registrations

    def _change_nodes(self, nodes: Mapping[str, NodeInfo], now_ms: int) -> list[Instruction]:
        self._replaced = (self._replaced & nodes.keys()) | self._newly_replaced(nodes)
        others = {node: info for node, info in nodes.items() if node != self._node and node not in self._replaced}
        instructions: list[Instruction] = []
        changed: set[str] = set()
        for node in [node for node, link in self._links.items() if link.info is not None and node not in others]:
            link = self._links.pop(node)
            if link.state in (LinkState.CONNECTING, LinkState.CONNECTED, LinkState.PROBING):
                instructions.append(DisconnectNode(node))
            reason = "another node has its place" if node in self._replaced else "it has left the cluster"
            instructions += [Fail(node, reason), Forget(node)]
            changed.add(node)
        for node, info in others.items():
            link = self._links.setdefault(node, OtherNode(LinkState.IDLE))
            # An answer waited for this entry.
            if link.state is LinkState.ABSENT:
                link.state, link.due_ms = LinkState.CONNECTING, None
                instructions.append(Connect(node, info))
            # It has moved, so what is known of its old place says nothing.
            elif link.state is LinkState.UNREACHABLE and link.info != info:
                link.due_ms = now_ms
            if link.info is None:
                changed.add(node)
            link.info = info
        return instructions + self._place_of(changed)

    def _newly_replaced(self, nodes: Mapping[str, NodeInfo]) -> set[str]:
        """Those at whose places newer nodes are: they were killed, and their sessions have not ended yet."""
        # Of two that are both news nobody knows which is newer: there pings tell. At its own place this one is newest.
        newer = [node for node in nodes if node not in self._links and node not in self._replaced]
        taken = {(nodes[node].host, nodes[node].port) for node in newer}
        own = nodes.get(self._node)
        return {
            node
            for node, info in nodes.items()
            if (node in self._links and (info.host, info.port) in taken)
            or (own is not None and node != self._node and (info.host, info.port) == (own.host, own.port))
        }

    def _change_registrations(self, address: str, counts: Mapping[str, int]) -> list[Instruction]:
        if address in self._references:
            # The list of an address may be read before its first consumer is in it.
            if not counts:
                return []
            del self._references[address]
        return self._register(address, counts)

    def _refer(self, address: str, node: str, now_ms: int) -> list[Instruction]:
        """Let a service be called at once that a node has made for this one: the membership's news may come later."""
        if address in self._counts or len(self._references) >= self._limits.references_max:
            return []
        self._references[address] = now_ms + self._limits.reference_ms_max
        return self._register(address, {node: 1})

    def _register(self, address: str, counts: Mapping[str, int]) -> list[Instruction]:
        # Each event has all of the address, so what was known before is dropped.
        for node in self._counts.pop(address, ()):
            addresses = self._addresses[node]
            addresses.discard(address)
            if not addresses:
                del self._addresses[node]
        # This node's own consumers are in the local registrations already.
        others = {node: count for node, count in counts.items() if node != self._node and count > 0}
        if others:
            self._counts[address] = others
            for node in others:
                self._addresses.setdefault(node, set()).add(address)
        return self._place([address])

    def _place_of(self, nodes: set[str]) -> list[Instruction]:
        """Place the addresses of these nodes anew."""
        return self._place(sorted({address for node in nodes for address in self._addresses.get(node, ())}))

    def _place(self, addresses: list[str]) -> list[Instruction]:
        instructions: list[Instruction] = []
        for address in addresses:
            turns = self._turns(address)
            # A round begins anew with each change, so one that stays as it is goes on.
            if turns == self._placed.get(address, ()):
                continue
            if turns:
                self._placed[address] = turns
            else:
                del self._placed[address]
            instructions.append(PlaceRemote(address, turns))
        return instructions

    def _turns(self, address: str) -> tuple[tuple[str, int], ...]:
        counts = self._counts.get(address, {})
        return tuple([(node, counts[node]) for node in sorted(counts) if self._receives(node, address)])

    def _receives(self, node: str, address: str) -> bool:
        link = self._links.get(node)
        if link is None or link.info is None or link.state not in _RECEIVING:
            return False
        return self._rights.may_receive(address, link.info.host)

    # -- connections

    def _wanted(self, node: str, now_ms: int) -> list[Instruction]:
        link = self._links.get(node)
        if link is None:
            return self._await_entry(node, now_ms)
        # Connections are opened when they are first needed, as in Vert.x: a large cluster is no full mesh.
        if link.state is LinkState.IDLE:
            link.state = LinkState.CONNECTING
            assert link.info is not None
            return [Connect(node, link.info)]
        # Sent before the sender could know.
        if link.state in (LinkState.UNREACHABLE, LinkState.PROBING):
            return [Fail(node, link.reason)]
        return []

    def _await_entry(self, node: str, now_ms: int) -> list[Instruction]:
        """Wait for a node's entry: its first message may be faster than ZooKeeper's news."""
        absent = sum([link.state is LinkState.ABSENT for link in self._links.values()])
        if absent >= self._limits.unknown_nodes_max:
            return [Fail(node, "it is not in the cluster"), Forget(node)]
        self._links[node] = OtherNode(LinkState.ABSENT, due_ms=now_ms + self._limits.unknown_node_ms_max)
        return []

    def _connected(self, node: str, now_ms: int) -> list[Instruction]:
        link = self._links[node]
        link.is_pong_due, link.due_ms = True, now_ms + self._limits.connect_ms_max
        return [Ping(node)]

    def _answered(self, node: str, now_ms: int) -> list[Instruction]:
        link = self._links[node]
        link.is_pong_due = False
        if link.state is LinkState.CONNECTED:
            return []
        was_probe = link.state is LinkState.PROBING
        link.state, link.connected_at_ms = LinkState.CONNECTED, now_ms
        link.due_ms = now_ms + self._limits.ping_interval_ms
        return [Release(node), *(self._place_of({node}) if was_probe else [])]

    def _failed(self, node: str, reason: str, now_ms: int) -> list[Instruction]:
        link = self._links[node]
        was_receiving = link.state in _RECEIVING
        pause_ms = min(self._limits.retry_ms_first << min(link.failures, 30), self._limits.retry_ms_max)
        link.state, link.reason, link.failures = LinkState.UNREACHABLE, reason, link.failures + 1
        link.due_ms = now_ms + pause_ms
        # The rounds first: a request that is sent meanwhile then goes to another node, or has no handlers.
        return [*(self._place_of({node}) if was_receiving else []), Fail(node, reason)]

    def _lost(self, node: str, now_ms: int) -> list[Instruction]:
        link = self._links[node]
        # A node that accepts and closes would be connected to without end, and so would another one in its place.
        if link.state in _OPENING or now_ms - link.connected_at_ms < self._limits.stable_ms_min:
            return self._failed(node, "it closed the connection at once", now_ms)
        link.state, link.due_ms, link.failures = LinkState.CONNECTING, None, 0
        assert link.info is not None
        return [Connect(node, link.info)]

    # -- time

    def _tick(self, now_ms: int) -> list[Instruction]:
        instructions: list[Instruction] = []
        due = [(node, link) for node, link in self._links.items() if link.due_ms is not None and link.due_ms <= now_ms]
        for node, link in due:
            instructions += self._due(node, link, now_ms)
        # It was closed before anybody could read that it was there.
        for address in [address for address, due_ms in self._references.items() if due_ms <= now_ms]:
            del self._references[address]
            instructions += self._register(address, {})
        return instructions

    def _due(self, node: str, link: OtherNode, now_ms: int) -> list[Instruction]:
        # Its connection was accepted, and its entry never came: perhaps a node of another cluster.
        if link.state is LinkState.ABSENT:
            del self._links[node]
            return [Fail(node, "it is not in the cluster"), Forget(node)]
        if link.state is LinkState.UNREACHABLE:
            link.state, link.due_ms = LinkState.PROBING, None
            assert link.info is not None
            return [Connect(node, link.info)]
        # Open or connected: the machine or the network of the node may have gone without a word.
        if link.is_pong_due:
            return [DisconnectNode(node), *self._failed(node, "it did not answer a ping", now_ms)]
        # A connection that lasts until its first ping is sound, so the next failure begins with the short pause.
        link.is_pong_due, link.failures = True, 0
        link.due_ms = now_ms + self._limits.ping_reply_ms_max
        return [Ping(node)]
