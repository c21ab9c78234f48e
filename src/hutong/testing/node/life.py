"""One life of an embedded node, from its start to an orderly stop or a sudden death. All on the node's loop.

Strategy: the seam between this package and the server: the classes that make a node are named here and nowhere else. A
node that is killed loses its connections and its disk at once; then its threads and timers end, which nothing outside
can notice any more.

Knows nothing of tests, of threads that wait, or of the owner of the data.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hutong.foundation.clock import SystemClock
from hutong.journal.files.disk import Disk
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.configuration.settings import Settings
from hutong.server.monitoring.sources import Sources
from hutong.server.serving import node_of
from hutong.testing.disks.mortal import MortalDisk
from hutong.testing.faults.network import NetworkFaults
from hutong.testing.observe.loopback import Loopback
from hutong.testing.observe.observer import Observer

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus


class Life:
    """Made and used on a running loop, behind network faults that may outlive it. `observer` looks into it.

    Where the settings open bridges for clients of the event bus, it has a `bus` of its own, with which they end.
    """

    observer: Observer
    tcp_bridge: str | None = None
    sockjs: str | None = None
    rocketmq: str | None = None
    http: str | None = None
    schema_registry: str | None = None
    console: str | None = None

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        network: NetworkFaults,
        users: Mapping[str, str] | None = None,
        ports: SystemPorts | None = None,
    ) -> None:
        """All `ports` but the disk are those of the machine, unless they are given."""
        self._network = network
        self._disk = MortalDisk(disk)
        self.has_bridges = settings.tcp_bridge.listen is not None or settings.sockjs.listen is not None
        ports = replace(ports or SystemPorts(), disk=self._disk)
        broker = BrokerPart(settings, ports=ports, gate=network, users=users, is_embedded=True)
        self._monitor = broker.monitor
        self._node = node_of(broker)
        self._loopback: Loopback | None = None

    async def start(self) -> None:
        """Return once clients are accepted. Raises what the node raises, and closes it first."""
        try:
            ready = await self._node.start()
        except BaseException:
            await self._node.stop()
            raise
        self.tcp_bridge = None if ready.tcp_bridge is None else str(ready.tcp_bridge)
        self.sockjs = None if ready.sockjs is None else str(ready.sockjs)
        self.rocketmq = None if ready.rocketmq is None else str(ready.rocketmq)
        self.http = None if ready.http is None else str(ready.http)
        self.schema_registry = None if ready.schema_registry is None else str(ready.schema_registry)
        self.console = None if ready.console is None else str(ready.console)
        self._loopback = Loopback(self._network.handler)
        self.observer = Observer(self._loopback, SystemClock())

    @property
    def sources(self) -> Sources:
        """The objects with its figures: it has no page of metrics."""
        return self._monitor.sources

    @property
    def loopback(self) -> Loopback:
        """The client of the helpers."""
        assert self._loopback is not None, "it has started, and not ended"
        return self._loopback

    @property
    def bus(self) -> "EventBus":
        """The bus of its bridges."""
        return self._node.bus

    async def stop(self) -> None:
        """Answer what is under way, mark the journals as closed cleanly, release everything."""
        await self._end(self._network.send_late_answers)

    async def kill(self) -> None:
        """As after SIGKILL: clients are cut off, and what was not written is not written any more."""

        def die() -> None:
            self._network.end_life()
            self._disk.die()

        await self._end(die)

    async def _end(self, begin: Callable[[], object]) -> None:
        if self._loopback is not None:
            self._loopback.close()
            self._loopback = None
        begin()
        await self._node.stop()
