"""Transactional ids of one Python worker, used again as soon as that is safe.

Brokers keep every id for days, so one per task would fill them: a stream with a trigger per second has hundreds of
thousands a day. A worker therefore has ids of its own, with a random beginning, and takes one again when a later batch
of the same query runs: Spark starts that only when the batch before has been committed, so what the id stood for is
settled and nobody will ask for it again. Until then it is not touched, even by another attempt of the same task: to
begin anew with an id aborts what it holds, which a driver may have decided to commit.

Batch jobs have no later batch: each of their tasks gets an id of its own.

Knows nothing of brokers.
"""

from dataclasses import dataclass, field

IDS_MAX = 256
"""Ids that a worker remembers; the oldest are left to expire at the brokers."""


@dataclass(slots=True)
class WorkerIds:
    """The ids of one worker. `name` tells it from any other, of any time."""

    name: str
    _count: int = 0
    _used: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The query and the batch that each id was taken for last, in that order of time."""

    def take(self, query_id: str, batch_id: int) -> str:
        """The end of a transactional id, which holds nothing that anybody may want."""
        chosen = next(
            (one for one, (query, batch) in self._used.items() if query == query_id and batch < batch_id), None
        )
        if chosen is None:
            chosen = f"{self.name}-{self._count}"
            self._count += 1
        else:
            del self._used[chosen]
        self._used[chosen] = query_id, batch_id
        if len(self._used) > IDS_MAX:
            del self._used[next(iter(self._used))]
        return chosen
