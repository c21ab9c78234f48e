"""A node in the process of its test: a real broker on a real port, with helpers that wait and switches that break it.

Strategy: one thread with one loop for as long as the `EmbeddedNode` is open; on it one life of a node after the other,
on the same port and the same data. Every method may be called from any thread. Those that wait for something would stop
an event loop that runs on the caller's thread, so they refuse to, and `aio` has the same to be awaited there.

Knows nothing of pytest.
"""

import asyncio
import atexit
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from hutong.journal.files.disk import Disk, RealDisk
from hutong.reactor.accept.reserved_port import ReservedPort
from hutong.server.bus.client_properties import read
from hutong.server.configuration.settings import Settings
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk
from hutong.testing.disks.memory import MemoryDisk
from hutong.testing.faults.network import NetworkFaults
from hutong.testing.faults.switches import FaultSwitches
from hutong.testing.node.aio import AsyncHelpers
from hutong.testing.node.buses import NodeBus
from hutong.testing.node.helpers import Helpers
from hutong.testing.node.life import Life
from hutong.testing.node.loop_thread import LoopThread
from hutong.testing.node.ports import HOST
from hutong.testing.node.settings import DEFAULTS, embedded_settings
from hutong.testing.observe.observer import Observer
from hutong.testing.values import Topic

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.testing.node.services import Services

T = TypeVar("T")


class EmbeddedNode(Helpers):
    """A node of this process, in a `with` block or from `start` to `close`.

    `topics` are made when it starts. Its data are in memory unless a folder is given. `settings` are those of `hutong
    config`, as {"log.retention_ms": "1000"}. `users` have these passwords, by name, where the settings ask clients who
    they are ({"kafka.protocol": "SASL_PLAINTEXT", "sasl.allow_without_tls": "true"}). Raises UsageError for a setting
    that is not known.
    """

    def __init__(
        self,
        *,
        topics: Iterable[Topic | str] = (),
        data_dir: Path | str | None = None,
        settings: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._topics = [Topic(topic) if isinstance(topic, str) else topic for topic in topics]
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._users = dict(users or {})
        self._flags = {**DEFAULTS, **(settings or {})}
        embedded_settings(self._flags, 0, Path())  # to complain at once
        # A slow fault sleeps on the thread that uses the disk, which a slow disk would block as well.
        self._plan = FaultPlan(sleep=sleep)
        # One disk for all lives of the node, so that data outlive `kill` and `restart`.
        self._disk: Disk = FaultyDisk(MemoryDisk() if data_dir is None else RealDisk(), self._plan)
        self._port: ReservedPort | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._network: NetworkFaults | None = None
        self._bus: NodeBus | None = None
        self._services: Services | None = None
        self._life: Life | None = None
        self.faults = FaultSwitches(self._on_network, self._plan)
        self.aio = AsyncHelpers(self)

    # -- its life

    @property
    def is_running(self) -> bool:
        return self._life is not None

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` for `bootstrap.servers`; the same for all its lives. Raises RuntimeError while it is not open."""
        if self._port is None:
            raise RuntimeError("the node is not open: use it in a `with` block, or call start()")
        return f"{HOST}:{self._port.number}"

    @property
    def bus(self) -> "EventBus":
        """The event bus of this process, made when it is first asked for; `topic:` addresses are topics of this node.

        It may be used from any thread, and outlives `kill` and `restart`: it is not the broker's. Where the settings
        open bridges it is the one of their clients, and ends with them.
        """
        return self.run(self._present_bus())

    @property
    def rpc(self) -> "Services":
        """Services on `bus`, bound and called by the test; new whenever the bus is."""
        from hutong.testing.node.services import Services  # most nodes are asked for Kafka alone

        bus = self.bus
        # Services belong to one bus: `close_bus`, and a restart with bridges, make another one.
        if self._services is None or self._services.bus is not bus:
            self._services = Services(self, bus)
        return self._services

    @property
    def tcp_bridge(self) -> str | None:
        """`HOST:PORT` of the TCP event-bus bridge, where the settings open one (`tcp_bridge.listen`)."""
        return None if self._life is None else self._life.tcp_bridge

    @property
    def sockjs(self) -> str | None:
        """`HOST:PORT` of the SockJS event-bus bridge, where the settings open one (`sockjs.listen`)."""
        return None if self._life is None else self._life.sockjs

    @property
    def rocketmq(self) -> str | None:
        """`HOST:PORT` for RocketMQ's clients, where the settings open it (`rocketmq.listen`)."""
        return None if self._life is None else self._life.rocketmq

    @property
    def http(self) -> str | None:
        """`HOST:PORT` of records, topics and groups over HTTP, where the settings open it (`http.listen`)."""
        return None if self._life is None else self._life.http

    @property
    def console_url(self) -> str | None:
        """`http://HOST:PORT` of the console, where the settings open one (`console.listen`)."""
        address = None if self._life is None else self._life.console
        return None if address is None else f"http://{address}"

    @property
    def schema_registry_url(self) -> str | None:
        """`http://HOST:PORT` of the schema registry, where the settings open one (`schema_registry.listen`)."""
        address = None if self._life is None else self._life.schema_registry
        return None if address is None else f"http://{address}"

    def start(self) -> "EmbeddedNode":
        """Return once clients are accepted; does nothing where they are. Raises UsageError, StorageError."""
        # A node that was stopped or killed has kept its thread, port and data.
        if self._thread is not None:
            self.run(self.begin())
            return self
        self._open()
        try:
            self.run(self.begin())
        # BaseException, since a test that is interrupted during the start must not leave a thread behind either.
        except BaseException:
            self.close()
            raise
        return self

    def stop(self) -> None:
        """Stop it in order: requests under way are answered. Port and data are kept for the next `start`."""
        self.run(self.end())

    def kill(self) -> None:
        """End it as SIGKILL does: clients are cut off, journals are not closed. Port and data are kept."""
        self.run(self.die())

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port and data. Topics keep what is in them."""
        self.run(self.renew())

    def close(self) -> None:
        """Stop it and put everything away: thread, sockets, temporary folder. Safe to call twice."""
        atexit.unregister(self.close)
        try:
            if self._thread is not None:
                self._thread.run(self._end_all())
        # Also where the node cannot be stopped in order: thread and port must not stay.
        finally:
            self._put_away()

    def __enter__(self) -> "EmbeddedNode":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # In a thread, since a start waits for the node's own loop and would block the caller's.
    async def __aenter__(self) -> "EmbeddedNode":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # -- for `aio` and the plugin

    @property
    def observer(self) -> Observer:
        """The observer of the running node. Raises RuntimeError while none runs."""
        if self._life is None:
            raise RuntimeError("the node is not running: it was stopped or killed, or never started")
        return self._life.observer

    async def begin(self) -> None:
        """On the node's loop: start unless it runs."""
        if self._life is not None:
            return
        assert self._network is not None
        # The disk and the network faults are those of all lives: data survive a restart, and so do faults that are
        # switched on.
        life = Life(self._settings(), self._disk, self._network, self._users)
        await life.start()
        # Only now: helpers that come in earlier say that no node runs, instead of asking one that cannot answer yet.
        self._life = life
        there = await life.observer.topics() if self._topics else {}
        for topic in self._topics:
            # After a restart the topics are there with their records.
            if topic.name not in there:
                await life.observer.create(topic)

    async def end(self) -> None:
        """On the node's loop: stop if it runs."""
        # Before the wait: a second caller finds nothing to stop, and helpers say that no node runs.
        life, self._life = self._life, None
        if life is not None:
            await life.stop()

    async def die(self) -> None:
        """On the node's loop: be killed if it runs."""
        life, self._life = self._life, None
        if life is not None:
            await life.kill()

    async def renew(self) -> None:
        """On the node's loop: stop and start."""
        await self.end()
        await self.begin()

    async def close_bus(self) -> None:
        """On the node's loop: end the bus, if there is one; the next use makes another."""
        # The bus of the bridges is the node's own: only a new life has a new one.
        if self._life is not None and self._life.has_bridges:
            await self.renew()
        else:
            await self._node_bus.close_bus()

    # -- how

    @property
    def _node_bus(self) -> NodeBus:
        if self._bus is None:
            raise RuntimeError("the node is not open: use it in a `with` block, or call start()")
        return self._bus

    async def _present_bus(self) -> "EventBus":
        if self._life is not None and self._life.has_bridges:
            # Clients of the bridges are on the node's own bus: a message on another one would not reach them.
            return self._life.bus
        return await self._node_bus.bus()

    async def _end_all(self) -> None:
        try:
            await self._node_bus.close()  # before the broker: its consumers take their leave
        finally:
            await self.end()

    def _open(self) -> None:
        try:
            self._port = ReservedPort()
            if self._data_dir is None:  # a node locks and marks a folder also where nothing else is in it
                self._folder = tempfile.TemporaryDirectory(prefix="hutong-testing-")
            self._thread = LoopThread("hutong-node")
            self._network = NetworkFaults(self._thread.loop)
            # The bus is a client like any other: where the node asks for passwords or TLS, it needs a file with both.
            properties = self._flags.get("bus.client_config")
            self._bus = NodeBus(self.bootstrap, read(Path(properties)) if properties else {})
            # A test that forgets to close its node must not leave a temporary folder behind.
            atexit.register(self.close)
        except BaseException:
            self._put_away()
            raise

    def _put_away(self) -> None:
        # The thread first: the node that runs on it uses port and folder.
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _settings(self) -> Settings:
        assert self._port is not None
        folder = Path(self._folder.name) if self._data_dir is None and self._folder is not None else self._data_dir
        assert folder is not None
        return embedded_settings(self._flags, self._port.number, folder)

    def _on_network(self, work: Callable[[NetworkFaults], T]) -> T:
        thread = self.thread
        network = self._network
        assert network is not None
        # Faults belong to the node's loop; a test changes them from its own thread.
        return thread.call(lambda: work(network))
