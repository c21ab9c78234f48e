"""A node with another clock or protocol between nodes: `altered_node.py CLOCK_MS LOWEST HIGHEST .../hutong serve ...`.

Strategy: the one function that reads the machine's wall clock, and the identity that a node shows to others, are
replaced before the command begins. All else is the program as it is.
"""

import sys
from functools import partial

from hutong.cli.main import main
from hutong.cluster.peers.identity import PeerIdentity
from hutong.foundation.clock import SystemClock
from hutong.server.cluster import cluster_verticle


def alter(clock_ms: int, lowest: int, highest: int) -> None:
    of_machine = SystemClock.wall_ms
    made = partial(PeerIdentity, protocol_lowest=lowest, protocol_highest=highest)
    setattr(SystemClock, "wall_ms", lambda clock: of_machine(clock) + clock_ms)  # noqa: B010  (mypy: a method)
    setattr(cluster_verticle, "PeerIdentity", made)  # noqa: B010


if __name__ == "__main__":
    alter(*map(int, sys.argv[1:4]))
    sys.argv = sys.argv[4:]
    main()
