"""A node in a simulation: the parts of a real one, on simulated ports.

Strategy: the same `ComposedNode` and `BrokerPart` as anywhere. What differs are the loop, the clock and `SystemPorts`.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Final

from hutong.broker.state.state_topic import GARBAGE_FLOOR_BYTES, SLICE_BYTES
from hutong.broker.topics.partition import Partition
from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.cluster.coordinator.memory_node import MemoryCoordinator
from hutong.foundation.errors import HutongError, StorageShortage
from hutong.journal.settings import JournalSettings
from hutong.replication.driver import GroupReplica
from hutong.runtime.runtime import Runtime
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Address, Settings
from hutong.testing.disks.simulated import SimDisk
from hutong.testing.simulation.hosts.folder import SimFolder
from hutong.testing.simulation.hosts.host import SimHost, SimProcess
from hutong.testing.simulation.hosts.offload import make_offloads
from hutong.testing.simulation.node_checks import check_machines, recovery_problems
from hutong.testing.simulation.services import KAFKA_PORT, NodeDesk

VOLUME_BYTES: Final = 1 << 40


class SimNode:
    """A node on a host. `start`, then any of `kill`, `stop` and `start` again."""

    def __init__(
        self,
        host: SimHost,
        settings: Settings,
        journal: Mapping[str, int] | None = None,
        desk: NodeDesk | None = None,
        state_bounds: tuple[int, int] = (GARBAGE_FLOOR_BYTES, SLICE_BYTES),
        flush_us: int = 0,
        number: int = 1,
        ensemble: MemoryEnsemble | None = None,
    ) -> None:
        """`journal` has bounds of all journals by their names in `JournalSettings`; `desk` is a service to offer.

        `state_bounds` are those of garbage and of a slice in state topics; `flush_us` is what its disk always takes.
        With an `ensemble` it is the node of this number in a cluster.
        """
        self.host = host
        self.number = number
        self.disk = SimDisk()
        self.is_ready = False
        self.flush_delay_us = 0  # of each flush, on top of what it always takes: a slow disk
        self.refusal: HutongError | None = None  # why the last start failed
        self._random = Random(host.random.getrandbits(64))
        self._folder = SimFolder(Path("/data"), host.wall_ms)
        self._settings = dataclasses.replace(
            settings,
            node=dataclasses.replace(settings.node, data_dir=self._folder.path, id=number),
            kafka=dataclasses.replace(settings.kafka, listen=Address(host.address, KAFKA_PORT)),
            log=dataclasses.replace(settings.log, io_uring=False),  # it is this machine's kernel
        )
        self._journal = dict(journal or {})
        self._desk = desk
        self._state_bounds = state_bounds
        self._flush_us = flush_us
        self._ensemble = ensemble
        self._coordinator: MemoryCoordinator | None = None  # of the present process
        self._node: ComposedNode | None = None
        self._broker: BrokerPart | None = None

    @property
    def is_up(self) -> bool:
        return self.host.process is not None

    @property
    def has_failed_disk(self) -> bool:
        """True once a journal of it takes no more records, or a replica has given up."""
        sources = None if self._broker is None else self._broker.monitor.sources
        if sources is None or not self.is_ready:
            return False
        failures: list[HutongError | None] = [each.failure for each in sources.journals.values()]
        failures += [each.failure for each in sources.replicas.values()]
        # A shortage is over by itself.
        return any(failure is not None and not isinstance(failure, StorageShortage) for failure in failures)

    @property
    def partitions(self) -> Iterator[Partition]:
        """Those that the present process knows, those of its own topics among them."""
        broker = None if self._broker is None else self._broker.monitor.sources.broker
        if broker is not None and self.is_ready:
            yield from chain.from_iterable(topic.partitions for topic in broker.topics.all())

    @property
    def replicas(self) -> Mapping[str, GroupReplica]:
        """Those of the present process in a cluster, by group."""
        sources = None if self._broker is None else self._broker.monitor.sources
        return {} if sources is None or self.host.process is None else sources.replicas

    def start(self) -> None:
        """Start a fresh process; `is_ready` once it accepts clients."""
        process = self.host.start()
        self.refusal = None
        self._node = self._broker = None  # what is left of them was the former process's
        process.run(self._main)

    def kill(self, *, with_power: bool = False) -> None:
        """End it as SIGKILL does, or `with_power`: then the disk loses of what was not flushed."""
        self.is_ready = False
        process = self.host.process
        self.host.kill(with_power=with_power)
        self._folder.close()
        if self._coordinator is not None:
            self._coordinator.vanish()
            self._coordinator = None
        if process is not None:
            self._break_off(process.jobs_under_way)
        if with_power:
            self.disk.crash(self._random)
        else:
            self.disk.power_on += 1  # files that the dead process had open are closed

    def lose_disk(self) -> None:
        """End it, and let its machine come back with an empty disk."""
        self.kill(with_power=True)
        self.disk = SimDisk()
        self._folder = SimFolder(self._folder.path, self.host.wall_ms)

    def _break_off(self, jobs: list[Callable[[], object]]) -> None:
        """Carry out the first changes of some jobs: between a write and its flush, a crash leaves a torn tail."""
        for job in jobs:
            # Without any change it is as if the job had not begun.
            changes = self._random.choice((None, 0, 1, 1, 1, 3))
            if changes is None:
                continue
            self.disk.changes_until_power_loss = changes
            with contextlib.suppress(HutongError):
                job()
        self.disk.changes_until_power_loss = None

    def pause(self, lasts_us: int) -> None:
        """Stop its process as SIGSTOP does, and continue it later. Meanwhile the coordinator does not hear it."""
        process, ensemble = self.host.process, self._ensemble
        if process is None:
            return
        process.stop_until(self.host.world.now_us + lasts_us)
        if ensemble is not None:
            ensemble.suspend(self.number)
            self.host.world.after(lasts_us, lambda: ensemble.resume(self.number))

    def stop(self) -> None:
        """Begin a clean stop, as SIGTERM does; the process ends when it is done."""
        process = self.host.process
        if process is not None and self.is_ready:
            self.is_ready = False
            process.run(self._stop)

    def check(self) -> None:
        """Note a failure where the state of a node that is up contradicts itself."""
        if self.is_ready and self._broker is not None and self.host.process is not None:
            try:
                check_machines(self._broker.monitor.sources)
            except AssertionError as error:
                self.host.process.failed("its state contradicts itself", error)

    async def _main(self) -> None:
        process = self.host.process
        assert process is not None
        ports = SystemPorts(
            disk=self.disk,
            open_folder=self._folder.open,
            open_socket=self.host.network.socket_of(process),
            make_offload=make_offloads(process, self._delay_us),
            random_bytes=process.random_bytes,
            processor_us=lambda: process.worked_us,
            volume_bytes=lambda _path: (VOLUME_BYTES, VOLUME_BYTES),
            journal_settings=self._journal_settings,
            open_coordinator=lambda *_: self._open_coordinator(process),
            state_garbage_bytes=self._state_bounds[0],
            state_slice_bytes=self._state_bounds[1],
        )
        runtime = Runtime(process.clock, blocked_limits=None)
        self._broker = BrokerPart(self._settings, ports=ports, is_embedded=True)
        parts: list[NodePart] = [self._broker]
        # Most nodes have no services, and start faster without.
        if self._desk is not None:
            parts += self._desk.parts(process, self._settings, self._broker.monitor, ports.open_socket)
        node = ComposedNode(runtime, parts, random=self.host.world.random(f"calls of {process.name}"))
        self._node = node
        try:
            await node.start()
        except HutongError as error:
            self.refusal = error
            self.host.world.note(process.name, f"does not start: {error}")
            # As `serve_node` does: a start that failed half way is closed, then the process exits.
            await self._end(node)
            return
        self.is_ready = True
        self.host.world.note(process.name, "is ready")
        for problem in recovery_problems(self._broker.monitor.sources):
            process.failed(problem, None)

    def _open_coordinator(self, process: SimProcess) -> MemoryCoordinator:
        """Return the session of this process. What the coordinator says comes between two steps of the loop."""
        assert self._ensemble is not None, "a node without an ensemble is alone"
        self._coordinator = self._ensemble.connect(self.number, process.loop.call_soon)
        return self._coordinator

    async def _stop(self) -> None:
        assert self._node is not None
        await self._end(self._node)

    async def _end(self, node: ComposedNode) -> None:
        await node.stop()
        # The process exits, but not from within its own loop: a kill closes the coroutine that runs this.
        self.host.world.after(1, self._exited)

    def _exited(self) -> None:
        process = self.host.process
        if process is not None:
            self.host.world.note(process.name, "has stopped")
            self.kill()

    def _journal_settings(self, settings: Settings, group: str, segments_open_max: int) -> JournalSettings:
        usual = translate.journal_settings(settings, group, segments_open_max)
        changed: dict[str, Any] = self._journal
        return dataclasses.replace(usual, **changed)

    def _delay_us(self, pool: str) -> int:
        return self._flush_us + self.flush_delay_us if "flush" in pool else 0


def settings_with(**sections: Any) -> Settings:
    """Default settings with some sections changed."""
    return dataclasses.replace(Settings(), **sections)
