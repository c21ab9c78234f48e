"""The values that every piece of a node's broker is made with."""

import asyncio
from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
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
