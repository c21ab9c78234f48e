"""Work that clients share in fair turns: reads from disk, examinations of batches, long requests.

Knows nothing of what the work is.
"""

from collections.abc import Callable, Sequence
from typing import Final

from hutong.scheduler.driver import FairExecutor
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources


def _sum_of(read: Callable[[FairExecutor], float]) -> Read:
    """Add up the executors of one kind of work: disk reads have one for each journal."""

    def samples(sources: Sources) -> Labelled:
        for work, executors in sources.executors.items():
            found: Sequence[FairExecutor] = executors()
            yield (work,), sum(map(read, found))

    return samples


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_scheduler_turns_total",
        COUNTER,
        "Turns of clients, by the work that they share: disk_reads, examinations, long_requests.",
        _sum_of(lambda executor: executor.turns_total),
        "work",
    ),
    metric(
        "hutong_scheduler_busy_seconds_total",
        COUNTER,
        "Time of the event loop that those turns took; what workers did meanwhile is not in it.",
        _sum_of(lambda executor: executor.busy_us / 1_000_000),
        "work",
    ),
    metric(
        "hutong_scheduler_messages",
        GAUGE,
        "Pieces of work that wait for a turn, or have begun and are not done.",
        _sum_of(lambda executor: executor.held),
        "work",
    ),
    metric(
        "hutong_scheduler_refused_total",
        COUNTER,
        "Pieces of work for which there was no room.",
        _sum_of(lambda executor: executor.refused_total),
        "work",
    ),
)
