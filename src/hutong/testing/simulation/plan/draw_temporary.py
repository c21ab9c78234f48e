"""Plans in which the power fails while topics come and go, each with one batch in each of its many partitions.

Strategy: some of the others are made into one, as for outages. What recovery must never do is believe a batch of a
former file. It can fit only in a file that is used again, at the very place, with the same size and offsets, behind a
chunk header that the torn write has left. So files are small and die together, each chunk has several batches, and all
batches have one size and offset 0. Crashes are rare enough that files come to be used again: a start removes them.
"""

import dataclasses
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedTemporaryUser
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.plan.plan import SimulationPlan

_SHARE: Final = 0.05
_CRASHES: Final = ("power", "power", "kill")
_CRASH_US: Final = 500_000  # from one to the next, on average
_LASTS_US: Final = 10_000
_FLUSH_US: Final = 2_000
_BATCHES: Final = 3  # of a chunk: a write that ends half way ends amid the padding of the second
_KIBIBYTE: Final = 1 << 10
_JOURNAL: Final = {
    "segment_bytes": 16 * _KIBIBYTE,  # the batches of one topic fill two of them and more
    "batch_bytes_max": 16 * _KIBIBYTE,
    # Behind each flush the rest of a block is blank: in large blocks little that is old would be left for the next one.
    "block_bytes": 512,
    # Files go soon: only once a checkpoint covers them.
    "checkpoint_interval_ms": 100,
    "checkpoint_interval_bytes": 64 * _KIBIBYTE,
}


def with_temporary_topics(random: Random, plan: SimulationPlan, kinds: tuple[str, ...]) -> SimulationPlan:
    """The plan, or, in some cases, one made of it, if crashes are among the kinds of faults."""
    crashes = [kind for kind in _CRASHES if kind in kinds]
    if random.random() >= _SHARE or not crashes:
        return plan
    user = PlannedTemporaryUser(
        name="user-0",
        pause_ms=random.choice((20, 100)),
        partitions=random.choice((32, 48)),
        batches_together=_BATCHES,
        # More than a sector: what differs between an old batch and a new one is kept or lost by itself.
        padding_bytes=random.choice((1_000, 1_500)),
    )
    faults = [
        PlannedFault(at_us, random.choice(crashes), _LASTS_US, random.getrandbits(32))
        for at_us in sorted(random.randrange(plan.lasts_us) for _ in range(plan.lasts_us // _CRASH_US))
    ]
    journal = {**dict(plan.node.journal), **_JOURNAL}
    settings = {**dict(plan.node.settings), "log.recycled_bytes": str(512 * _KIBIBYTE)}
    node = dataclasses.replace(
        plan.node,
        settings=tuple(settings.items()),
        journal=tuple(journal.items()),
        flush_us=_FLUSH_US,
        service_instances=0,
        remembers_calls=False,
    )
    return dataclasses.replace(plan, node=node, topics=(), clients=(user,), faults=tuple(faults), share_groups=())
