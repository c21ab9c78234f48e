"""The figures of `bus.shared`, for metrics.

Knows no metrics.
"""

from typing import NamedTuple


class SharedFigures(NamedTuple):
    """Operations on shared counters, locks and maps since the start, and locks of this process.

    `failed_total` counts operations that ended in an error: ZooKeeper was not reached, or a lock did not come free.
    """

    operations_total: int
    failed_total: int
    under_way: int
    locks_held: int
    locks_lost_total: int
