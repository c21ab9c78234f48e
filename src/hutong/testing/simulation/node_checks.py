"""The insides of a node, looked at between two steps of its loop: what its machines hold for true of themselves.

Strategy: the machines have `check_invariants` for their own tests. A simulation has histories that no test has.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from hutong.server.monitoring.sources import Sources


class Checkable(Protocol):
    def check_invariants(self) -> None:
        """Raises AssertionError."""
        ...


def recovery_problems(sources: Sources) -> Iterator[str]:
    """A crash takes away what was not flushed. It never leaves half of a file that was replaced as a whole."""
    for group, journal in sources.journals.items():
        if journal.recovery.has_damaged_checkpoint:
            yield f"the checkpoint of the partition group {group} is damaged"


def check_machines(sources: Sources) -> None:
    """Raises AssertionError where the state of a journal, group or transaction contradicts itself."""
    for each in _machines_of(sources):
        each.check_invariants()


def _machines_of(sources: Sources) -> Iterator[Checkable]:
    yield from sources.journals.values()
    broker = sources.broker
    # It is made once the journals are open.
    if broker is not None:
        yield from broker.share_deliveries
        for shard in broker.shards:
            yield from chain(shard.groups, shard.consumer_groups, shard.share_groups)
            yield from (machine for _, machine in shard.transactions)
