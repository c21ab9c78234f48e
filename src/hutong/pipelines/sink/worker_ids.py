"""Transactional ids of one Python worker, reused as soon as that is safe.

Brokers keep every id for days, so one per task would fill them: a stream with a trigger per second has hundreds of
thousands a day. A worker therefore has ids with a random prefix, and reuses one when a later batch of the same query
runs. Spark starts that batch after the commit of the previous one, so the id's transaction is settled. Before that not
even another attempt of the same task may use the id: initializing it aborts its transaction, which a driver may have
decided to commit.

Batch jobs have no later batch: each of their tasks gets a new id.

Knows nothing of brokers.
"""

from dataclasses import dataclass, field

IDS_MAX = 256
"""Ids that a worker remembers; the oldest are left to expire at the brokers."""


@dataclass(slots=True)
class WorkerIds:
    """The ids of one worker. `name` is random, so no other worker has the same ids."""

    name: str
    _count: int = 0
    _used: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The query and the batch that each id was taken for last, in that order of time."""

    def take_id(self, query_id: str, batch_id: int) -> str:
        """The end of a transactional id, whose last transaction is settled."""
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
