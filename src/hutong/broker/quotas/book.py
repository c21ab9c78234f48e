"""All client quotas of the node, durable: what was set for whom, and what counts for a client.

Strategy: quotas are few and change rarely, requests are many. Which quota counts for a client is looked up once and
remembered until any quota changes.

Knows nothing of requests or of what clients used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hutong.broker.quotas.entities import CLIENT_KEYS, CONNECTION, IP, Entity, candidates, entity_from, text_of
from hutong.broker.state.durable_table import DurableTable
from hutong.foundation.waiting.pending import Continuation

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog

ENTITIES_MAX: Final = 10_000
_REMEMBERED_MAX: Final = 10_000


class QuotaBook:
    """The quotas that were set. `is_in_force` is True if any client must be metered."""

    def __init__(self) -> None:
        self._table = DurableTable("quota/", ENTITIES_MAX)
        self._table.on_change.append(self._changed)
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._found: dict[tuple[str, str, str], tuple[float, tuple[str, str]] | None] = {}
        self.is_in_force = False
        self._has_addresses = False
        self.on_change: Callable[[], None] = lambda: None
        self.replay = self._table.replay

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start(state)

    @property
    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """Every entity that has a quota, with its quotas."""
        return self._quotas

    def alter(self, entity: Entity, changes: Mapping[str, float | None], then: Continuation[None]) -> None:
        """Set quotas of an entity; None removes one. `then` is called once that is durable."""
        name = text_of(entity)
        wanted = dict(self._table.latest(name) or {})
        for key, value in changes.items():
            if value is None:
                wanted.pop(key, None)
            else:
                wanted[key] = value
        self._table.put(name, wanted or None, then)

    def connection_rate(self, address: str) -> float | None:
        """The connections that an address may make in a second; None if there is no bound (KIP-612)."""
        if not self._has_addresses:
            return None
        for entity in (((IP, address),), ((IP, None),)):
            quotas = self._quotas.get(entity)
            if quotas is not None and CONNECTION in quotas:
                return quotas[CONNECTION]
        return None

    def quota_for(self, key: str, user: str, client_id: str) -> tuple[float, tuple[str, str]] | None:
        """The quota of a client and who shares it, or None where it has none."""
        asked = (key, user, client_id)
        if asked not in self._found:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            self._found[asked] = self._find(key, user, client_id)
        return self._found[asked]

    def _find(self, key: str, user: str, client_id: str) -> tuple[float, tuple[str, str]] | None:
        for entity, sharers in candidates(user, client_id):
            quotas = self._quotas.get(entity)
            if quotas is not None and key in quotas:
                return quotas[key], sharers
        return None

    def _changed(self, name: str, quotas: dict[str, float] | None) -> None:
        entity = entity_from(name)
        if quotas is None:
            self._quotas.pop(entity, None)
        else:
            self._quotas[entity] = quotas
        self._found.clear()
        self._has_addresses = any(CONNECTION in quotas for quotas in self._quotas.values())
        self.is_in_force = any(not CLIENT_KEYS.isdisjoint(quotas) for quotas in self._quotas.values())
        self.on_change()
