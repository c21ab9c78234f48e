"""A node of `hutong cluster dev`: `hutong serve`, and two signals that cut it off from the other nodes and back.

Strategy: links are ended and refused in the process itself, since one address of a node serves all others. SIGUSR1
cuts, SIGUSR2 heals. The way to ZooKeeper is the supervisor's (`zookeeper_door`).

Knows nothing of the other nodes.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Final

from hutong.cli.cluster.supervisor import CUT_SIGNAL, HEAL_SIGNAL
from hutong.cli.main import run
from hutong.server.broker.system_ports import SystemPorts

NODES_MAX: Final = 15
"""Of a cluster on one machine."""


class SignalledPaths:
    """Implements `PeerPaths`."""

    def __init__(self) -> None:
        self._are_open = True

    def is_open(self, _node: int) -> bool:
        return self._are_open

    def watch(self, cut: Callable[[int], None]) -> None:
        def close() -> None:
            # First: an end of a link is news, and who hears it may dial at once.
            self._are_open = False
            for node in range(1, NODES_MAX + 1):
                cut(node)

        def open_again() -> None:
            self._are_open = True

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(CUT_SIGNAL, close)
        loop.add_signal_handler(HEAL_SIGNAL, open_again)


if __name__ == "__main__":
    # Else they would end a process that is just starting.
    for each in (CUT_SIGNAL, HEAL_SIGNAL):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(run(["serve", *sys.argv[1:]], SystemPorts(peer_paths=SignalledPaths())))
