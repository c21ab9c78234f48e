"""Member ids that were handed out and not used yet (KIP-394), of all classic groups.

Strategy: an id is worth a moment: its client joins with it at once, or never. So ids lapse soon, and a client that asks
for more than its bound has its own oldest id lapse for each new one; other clients' ids stay. A client whose id has
lapsed is answered UNKNOWN_MEMBER_ID and asks for another one, as after a restart of the node.

Knows nothing of groups: the caller that adds an id removes the id that expires for it.
"""

from collections import OrderedDict

Lapsed = tuple[str, str]
"""A group's id, and the member id that lapses in it."""


class PendingIds:
    """At most `ids_max` ids, at most `ids_of_client_max` of one client, none older than `timeout_ms`."""

    __slots__ = ("_entries", "_ids_max", "_ids_of_client_max", "_of_client", "_timeout_ms")

    def __init__(self, ids_max: int, ids_of_client_max: int, timeout_ms: int) -> None:
        self._ids_max = ids_max
        self._ids_of_client_max = ids_of_client_max
        self._timeout_ms = timeout_ms
        self._entries: OrderedDict[str, tuple[str, str, int]] = OrderedDict()  # id -> (client, group, since), by time
        self._of_client: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, holder: str, group_id: str, member_id: str, now_ms: int) -> Lapsed | None:
        """An id is handed out. Returns one that has to lapse for it."""
        self._forget_old(now_ms)
        own = self._of_client.get(holder, ())
        if len(own) >= self._ids_of_client_max:
            lapsed = self._lapse(next(iter(own)))
        elif len(self._entries) >= self._ids_max:
            lapsed = self._lapse(next(iter(self._entries)))
        else:
            lapsed = None
        self._entries[member_id] = holder, group_id, now_ms
        self._of_client.setdefault(holder, OrderedDict())[member_id] = None
        return lapsed

    def discard(self, member_id: str) -> None:
        """The id was used."""
        if member_id in self._entries:
            self._lapse(member_id)

    def check_invariants(self) -> None:
        assert len(self._entries) <= self._ids_max
        assert all(0 < len(own) <= self._ids_of_client_max for own in self._of_client.values())
        assert {member_id for own in self._of_client.values() for member_id in own} == self._entries.keys()

    def _forget_old(self, now_ms: int) -> None:
        """The groups let old ids lapse by themselves: here they only make room."""
        while self._entries:
            member_id, (_, _, since_ms) = next(iter(self._entries.items()))
            if now_ms - since_ms < self._timeout_ms:
                return
            self._lapse(member_id)

    def _lapse(self, member_id: str) -> Lapsed:
        holder, group_id, _ = self._entries.pop(member_id)
        own = self._of_client[holder]
        del own[member_id]
        if not own:
            del self._of_client[holder]
        return group_id, member_id
