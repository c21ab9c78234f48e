"""A node that takes itself for one of three: it sees the cluster that a test has drawn."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.broker import Broker
from hutong.broker.dispatch.forwarded import ForwardedRequests
from hutong.broker.handling.cluster_view import CoordinationKind, NodeAddress
from hutong.broker.handling.listeners import Listener
from hutong.broker.handling.session import ClientSession
from hutong.cluster.controller.commands import CommandReply, ControllerCommand
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.server.broker import broker_verticle
from hutong.wire.buffer import Buffer

HERE, NEXT, LAST = 1, 2, 3


class DrawnCluster:
    """Three nodes, of which this one is the first. The test says who is the controller and who coordinates."""

    is_alone = False

    def __init__(self) -> None:
        self.controller_id = HERE
        self.coordinators: dict[CoordinationKind, int] = {}
        self.gone: set[int] = set()
        self.forwarded: list[tuple[bytes, ClientSession]] = []
        self.answer: bytes | HutongError | None = None  # None: handled by `remote`, as on the controller
        self.remote: ForwardedRequests | None = None
        self.elections: list[tuple[str, bool]] = []
        self.forgotten: list[int] = []
        self.commands: list[ControllerCommand] = []
        self.reply: CommandReply | HutongError = CommandReply()

    @property
    def is_controller(self) -> bool:
        return self.controller_id == HERE

    def nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        here = NodeAddress(HERE, listener.host, listener.port, "red")
        others = (NodeAddress(node, f"node-{node}", 9092, "blue") for node in (NEXT, LAST))
        return [node for node in (here, *others) if node.node_id not in self.gone]

    def coordinator_of(self, kind: CoordinationKind, key: str) -> int:
        return self.coordinators.get(kind, HERE)

    def forward(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        self.forwarded.append((bytes(frame), session))
        if self.answer is not None:
            then(self.answer)
            return
        assert self.remote is not None
        # The same process plays the controller, which sees the request of a client of another node.
        before, self.controller_id = self.controller_id, HERE
        self.remote.handle_frame(frame, self.remote.session_of(session.principal, session.address), then)
        self.controller_id = before

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        raise AssertionError("no handler asks a node")

    def elect(self, group: str, *, is_unclean: bool, then: Continuation[None]) -> None:
        self.elections.append((group, is_unclean))
        then(None)

    def forget_node(self, node: int, then: Continuation[None]) -> None:
        self.forgotten.append(node)
        then(None)

    def command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        self.commands.append(command)
        then(self.reply)


class ClusterScene:
    """`client` is connected to the node."""

    def __init__(self, broker: Broker, cluster: DrawnCluster, client: WireClient) -> None:
        self.broker = broker
        self.cluster = cluster
        self.client = client

    def lead(self, group: str, node: int, epoch: int) -> None:
        """Let a node lead a group from now on; -1 for nobody."""
        standing = self.broker.topics.standings[group]
        standing.leader, standing.leader_epoch, standing.is_led_here = node, epoch, node == HERE
        standing.replicas, standing.in_sync = (HERE, NEXT, LAST), (HERE, NEXT)
        self.broker.topics.standing_changed(group)


@asynccontextmanager
async def cluster_scene(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterScene]:
    made: list[Broker] = []
    cluster = DrawnCluster()

    def make(**parts: object) -> Broker:
        made.append(Broker(**(parts | {"cluster": cluster})))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(broker_verticle, "Broker", make)
    async with running_node(data_dir) as address, client_of(address) as client:
        yield ClusterScene(made[-1], cluster, client)
