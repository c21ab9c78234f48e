"""Locks of queues, by which one client of a group at a time consumes a queue in order (`RebalanceLockManager`).

A client renews its locks every 20 s; after 60 s without that another one gets them.

Pure: times arrive with each call.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded

LOCK_EXPIRY_MS: Final = 60_000
LOCKS_MAX: Final = 100_000
LockedQueue = tuple[str, int]
"""Topic and queue."""


class _Lock(NamedTuple):
    client_id: str
    taken_ms: int


class QueueLocks:
    """The locks of all groups."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, LockedQueue], _Lock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def lock(self, group: str, client_id: str, queues: Iterable[LockedQueue], now_ms: int) -> list[LockedQueue]:
        """Lock what is free, expired or the client's already; returns those. Raises LimitExceeded."""
        taken: list[LockedQueue] = []
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client_id != client_id and now_ms - held.taken_ms <= LOCK_EXPIRY_MS:
                continue
            if held is None and len(self._locks) >= LOCKS_MAX:
                self._forget_expired(now_ms)
                if len(self._locks) >= LOCKS_MAX:
                    raise LimitExceeded("LOCKS_MAX", LOCKS_MAX)
            self._locks[group, queue] = _Lock(client_id, now_ms)
            taken.append(queue)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[LockedQueue]) -> None:
        """Free those that are the client's."""
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client_id == client_id:
                del self._locks[group, queue]

    def _forget_expired(self, now_ms: int) -> None:
        expired = [where for where, held in self._locks.items() if now_ms - held.taken_ms > LOCK_EXPIRY_MS]
        for where in expired:
            del self._locks[where]
