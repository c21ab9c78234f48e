"""The values that every piece of a node's broker is made with."""

import asyncio
from dataclasses import dataclass

from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.journal.log import PartitionLog
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.configuration.settings import Settings
from hutong.server.monitoring.sources import Sources


@dataclass(frozen=True, slots=True)
class BrokerEnvironment:
    """The settings, and the loop on which all of the broker happens. Each piece adds its figures to `sources`."""

    settings: Settings
    loop: asyncio.AbstractEventLoop
    wheel: TimerWheel
    clock: Clock
    sources: Sources
    ports: SystemPorts

    def state_topic(self, name: str, log: PartitionLog) -> StateTopic:
        """A state topic on this log, to be replayed."""
        return StateTopic(
            name,
            LogStorage(log),
            self.clock,
            garbage_floor_bytes=self.ports.state_garbage_bytes,
            slice_bytes=self.ports.state_slice_bytes,
        )
