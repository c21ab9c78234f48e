"""A cluster in the process of its test: several real nodes with one coordinator in memory, and ways to break them.

Strategy: one thread with one loop for all nodes, as long as the `EmbeddedCluster` is open. Each node is whole: its
journals, links over loopback, clients on a port of its own. The coordinator is a `MemoryEnsemble` on the same loop.
Helpers ask the nodes that can answer, so they work while any majority does. Every method may be called from any thread;
those that wait refuse to run on an event loop, and `aio` has the same to be awaited there.

Knows nothing of pytest.
"""

import asyncio
import atexit
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.foundation.clock import SystemClock
from hutong.server.configuration.settings import Settings
from hutong.testing.cluster.aio import AsyncClusterHelpers
from hutong.testing.cluster.member import COORDINATOR, ClusterMember, ClusterPlace
from hutong.testing.cluster.routing import RoutedLoopback
from hutong.testing.cluster.watching import ELECTION_S_MAX, IN_SYNC_S_MAX, ClusterWatch, Coordinated
from hutong.testing.node.helpers import Helpers, to_ms
from hutong.testing.node.loop_thread import LoopThread
from hutong.testing.node.settings import DEFAULTS, check_own, embedded_settings
from hutong.testing.observe.loopback import Loopback
from hutong.testing.observe.observer import Observer
from hutong.testing.values import Topic

NODES_MAX: Final = 15
# As for a single node. A node that is cut off counts as dead after a second.
CLUSTER_DEFAULTS: Final = {
    **DEFAULTS,
    "cluster.session_timeout_ms": "1000",
    "cluster.lag_ms_max": "1000",
}
_OWN: Final = ("cluster.coordinator", "cluster.listen", "cluster.advertised", "node.id")


class EmbeddedCluster(Helpers):
    """Nodes 1 to `nodes` of this process, in a `with` block or from `start` to `close`. Their data are in memory.

    `topics` are made at the first start. `settings` are those of `hutong config`, for all nodes. Raises UsageError for
    a setting that is not known, ValueError for a number of nodes that no cluster has.
    """

    _what = "cluster"

    def __init__(
        self, nodes: int = 3, *, topics: Iterable[Topic | str] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        if not 1 <= nodes <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {nodes}")
        self._topics = [Topic(topic) if isinstance(topic, str) else topic for topic in topics]
        self._flags = {**CLUSTER_DEFAULTS, **(settings or {})}
        check_own(self._flags, _OWN, "the embedded cluster's")
        self._settings: Settings = embedded_settings(
            {**self._flags, "cluster.coordinator": COORDINATOR}, 0, Path()
        )  # to complain at once
        self._numbers = range(1, nodes + 1)
        self._clock = SystemClock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._members: dict[int, ClusterMember] = {}
        self._loopback = RoutedLoopback(self._reached, self._clock)
        self._observer = Observer(self._loopback, self._clock)
        self.watch = ClusterWatch(self._loopback, self._reached, self._clock)
        self.aio = AsyncClusterHelpers(self)

    # -- the nodes

    @property
    def nodes(self) -> list[ClusterMember]:
        """All nodes, by number. Raises RuntimeError while the cluster is not open."""
        return [self.node(number) for number in self._numbers]

    def node(self, number: int) -> ClusterMember:
        """The node with this number, from 1 on: its `bootstrap`, `is_running` and `faults`. Raises ValueError."""
        if number not in self._numbers:
            raise ValueError(f"the cluster has the nodes 1 to {len(self._numbers)}, and no node {number}")
        if number not in self._members:
            raise RuntimeError("the cluster is not open: use it in a `with` block, or call start()")
        return self._members[number]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes for `bootstrap.servers`. Raises RuntimeError while the cluster is not open."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def rocketmq(self) -> str:
        """The nodes that run, as name servers for RocketMQ's clients, where the settings open it."""
        return ";".join(address for node in self.nodes if (address := node.rocketmq) is not None)

    @property
    def observer(self) -> Observer:
        """The observer of all nodes. Raises RuntimeError while none runs."""
        if not self._reached():
            raise RuntimeError("no node of the cluster is running and within reach")
        return self._observer

    # -- their lives

    def start(self, number: int | None = None) -> "EmbeddedCluster":
        """Start the node with this number, or all that do not run; return once clients are accepted.

        Raises UsageError where a node does not get into the cluster, which takes a majority.
        """
        if self._thread is not None:
            self.run(self.begin(number))
            return self
        self._open()
        try:
            self.run(self.begin(number))
        # BaseException, since a test that is interrupted during the start must not leave a thread behind either.
        except BaseException:
            self.close()
            raise
        return self

    def stop(self, number: int) -> None:
        """Stop a node in order: others lead at once what it has led. Port and data are kept for the next `start`."""
        self.run(self.node(number).end())

    def kill(self, number: int) -> None:
        """End a node as SIGKILL does: clients and peers are cut off, journals are not closed."""
        self.run(self.node(number).die())

    def restart(self, number: int) -> None:
        """Stop a node if it runs, and start it again on the same port and data."""
        self.run(self.renew(number))

    def cut(self, number: int) -> None:
        """Cut a node off from its peers and the coordinator, but not from clients, until `heal`."""
        self.thread.call(self.node(number).cut)

    def heal(self, number: int | None = None) -> None:
        """Undo `cut`, for one node or all. Faults of single nodes are theirs to heal."""
        members = self.nodes if number is None else [self.node(number)]
        for member in members:
            self.thread.call(member.heal)

    def close(self) -> None:
        """Stop all nodes and put everything away: thread, sockets, temporary folder. Safe to call twice."""
        atexit.unregister(self.close)
        try:
            if self._thread is not None:
                self._thread.run(self._end_all())
        # Also where a node cannot be stopped in order: thread and ports must not stay.
        finally:
            self._put_away()

    def __enter__(self) -> "EmbeddedCluster":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # In a thread, since a start waits for the cluster's own loop and would block the caller's.
    async def __aenter__(self) -> "EmbeddedCluster":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # -- who leads

    def leader_of(self, topic: str, partition: int = 0, *, timeout: float = ELECTION_S_MAX) -> int:
        """The number of the node that leads the partition, once one within reach does. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(self.watch.leader_of(topic, partition, to_ms(timeout)), "leader_of")

    def controller(self, *, timeout: float = ELECTION_S_MAX) -> int:
        """The number of the controller, once there is one within reach. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(self.watch.controller(to_ms(timeout)), "controller")

    def coordinator_of(self, name: str, kind: Coordinated = "group", *, timeout: float = ELECTION_S_MAX) -> int:
        """The number of the node that coordinates the consumer group, or the transactional id. Raises WaitFailed."""
        __tracebackhide__ = True
        return self._wait(self.watch.coordinator_of(name, kind, to_ms(timeout)), "coordinator_of")

    def wait_until_in_sync(self, *, timeout: float = IN_SYNC_S_MAX) -> None:
        """Return once all replicas on nodes within reach are in sync, and all these nodes say so. Raises WaitFailed."""
        __tracebackhide__ = True
        self._wait(self.watch.wait_until_in_sync(to_ms(timeout)), "wait_until_in_sync")

    # -- for `aio`

    async def begin(self, number: int | None = None) -> None:
        """On the cluster's loop: start one node, or all that do not run."""
        members = self.nodes if number is None else [self.node(number)]
        # All at once, since a single one does not get into a cluster without a majority.
        outcomes = await asyncio.gather(*(member.begin() for member in members), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        # Once only: the topics that a test has deleted since do not come back.
        topics, self._topics = self._topics, []
        for topic in topics:
            await self.observer.create(topic)
        if topics:
            await self.watch.wait_for_topics([topic.name for topic in topics], to_ms(ELECTION_S_MAX))

    async def renew(self, number: int) -> None:
        """On the cluster's loop: stop and start."""
        await self.node(number).end()
        await self.node(number).begin()

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Return once all nodes within reach know it. Raises ValueError, Refused as for a single node."""
        super().create_topic(name, partitions=partitions, config=config)
        self.run(self.watch.wait_for_topics([name], to_ms(ELECTION_S_MAX)))

    # -- how

    def _reached(self) -> dict[int, Loopback]:
        return {
            number: member.life.loopback
            for number, member in self._members.items()
            if member.life is not None and not member.is_cut
        }

    async def _end_all(self) -> None:
        # All are stopped, also where one cannot be stopped in order.
        errors = await asyncio.gather(*(member.end() for member in self._members.values()), return_exceptions=True)
        for error in errors:
            if error is not None:
                raise error

    def _open(self) -> None:
        try:
            # A node locks and marks a folder also where nothing else is in it.
            self._folder = tempfile.TemporaryDirectory(prefix="hutong-testing-")
            self._thread = thread = LoopThread("hutong-cluster")
            # By chance without a seed: the order of three nodes' starts is no more certain than with ZooKeeper.
            ensemble = MemoryEnsemble(
                lambda delay_ms, work: thread.loop.call_later(delay_ms / 1000, work),
                Random(),
                session_ms=self._settings.cluster.session_timeout_ms,
            )
            place = ClusterPlace(thread, ensemble, self._flags, Path(self._folder.name))
            for number in self._numbers:
                others = [other for other in self._numbers if other != number]
                self._members[number] = ClusterMember(number, others, place)
            # A test that forgets to close its cluster must not leave a temporary folder behind.
            atexit.register(self.close)
        except BaseException:
            self._put_away()
            raise

    def _put_away(self) -> None:
        # The thread first: the nodes that run on it use ports and folder.
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        for member in self._members.values():
            member.put_away()
        self._members.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
