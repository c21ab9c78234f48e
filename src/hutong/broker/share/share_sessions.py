"""Share sessions (KIP-932): the partitions that a member of a share group fetches, kept so that requests name changes.

    epoch of a request   0: begin a session   -1: end it   else: the session's next epoch

Strategy: one session for each member of each group, bounded in number; it ends with its connection, or when it is
closed or its member has left. Its end releases the records that the member holds.

Knows nothing of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.fair_shares import NOBODY, FairShares
from hutong.groups.share.records import PartitionKey
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.waiting.table import ParkedWait, WaitTable

BEGIN_EPOCH: Final = 0
END_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSION_PARTITIONS_MAX: Final = 20_000
SESSIONS_PARTITIONS_MAX: Final = 500_000  # of all sessions together


class ShareSession:
    """One member's session. `partitions` are in the order of the next fetch."""

    __slots__ = ("epoch", "group_id", "holder", "member_id", "partitions", "ticket")

    def __init__(self, group_id: str, member_id: str, holder: str = NOBODY) -> None:
        self.holder = holder  # the client whose share of the bounds it takes
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 1
        self.partitions: dict[PartitionKey, object] = {}
        self.ticket: ParkedWait[None] | None = None

    def rotate(self) -> list[PartitionKey]:
        """The partitions; next time another one is the first."""
        keys = list(self.partitions)
        if keys:
            del self.partitions[keys[0]]
            self.partitions[keys[0]] = None
        return keys


class ShareSessions:
    """All share sessions of this node. `on_end` is called with each session that has ended."""

    def __init__(self, waits: WaitTable[None], sessions_max: int, on_end: Callable[[ShareSession], None]) -> None:
        self._waits = waits
        self._slots = FairShares("group.share.max.share.sessions", sessions_max)
        self._partitions = FairShares("SESSIONS_PARTITIONS_MAX", SESSIONS_PARTITIONS_MAX)
        self._on_end = on_end
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._members: Counter[str] = Counter()  # sessions of each group

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """True while a member of the group has a session here."""
        return group_id in self._members

    def begin_session_fetch(
        self, group_id: str, member_id: str, wanted: Iterable[PartitionKey], client: ClientSession, holder: str = NOBODY
    ) -> ShareSession:
        """A new session, in place of the member's old one if there is one. Raises Refused."""
        old = self._sessions.get((group_id, member_id))
        # The client has lost its session, or starts over: epoch 0 always begins a new one (KIP-932).
        if old is not None:
            if old.ticket is not None:
                old.ticket.abandon()
            self._remove(old)
        # KIP-932 bounds sessions for each node; a share for each client keeps one from taking them all.
        if not self._slots.may_take(holder):
            raise Refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, holder)
        self._add(session, wanted)
        self._slots.take(holder)
        self._sessions[(group_id, member_id)] = session
        self._members[group_id] += 1

        def over(_outcome: HutongError | None) -> None:
            self._forget(session)

        try:
            session.ticket = self._waits.park((group_id, member_id), over, owner=client.owner)
        except LimitExceeded:
            self._remove(session)
            raise Refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED) from None
        return session

    def continue_session(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        wanted: Iterable[PartitionKey] = (),
        unwanted: Iterable[PartitionKey] = (),
    ) -> ShareSession:
        """Advance the session that is at `epoch`. Raises Refused."""
        session = self.find(group_id, member_id)
        # A request was lost or repeated, so both sides may differ on the list of partitions.
        if session.epoch != epoch:
            raise Refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        # Kafka's order (ShareSession.update). A client that gives a partition up names it twice: with the last
        # acknowledgements, and as forgotten.
        self._add(session, wanted)
        for key in unwanted:
            if session.partitions.pop(key, _ABSENT) is not _ABSENT:
                self._partitions.release(session.holder)
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession:
        """The session of a member. Raises Refused(SHARE_SESSION_NOT_FOUND)."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Refused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def end(self, group_id: str, member_id: str) -> None:
        """End a member's session if there is one."""
        session = self._sessions.get((group_id, member_id))
        if session is not None:
            if session.ticket is not None:
                session.ticket.abandon()
            self._forget(session)

    def _forget(self, session: ShareSession) -> None:
        if self._sessions.get((session.group_id, session.member_id)) is session:
            self._remove(session)
            self._on_end(session)

    def _remove(self, session: ShareSession) -> None:
        del self._sessions[session.group_id, session.member_id]
        self._members[session.group_id] -= 1
        if not self._members[session.group_id]:
            del self._members[session.group_id]
        self._slots.release(session.holder)
        self._partitions.release(session.holder, len(session.partitions))

    def _add(self, session: ShareSession, wanted: Iterable[PartitionKey]) -> None:
        """Add all partitions, or none. Raises Refused."""
        new = dict.fromkeys(key for key in wanted if key not in session.partitions)
        if len(session.partitions) + len(new) > SESSION_PARTITIONS_MAX:
            raise Refused(ErrorCode.INVALID_REQUEST, f"A session has at most {SESSION_PARTITIONS_MAX} partitions.")
        if new and not self._partitions.may_take(session.holder, len(new)):
            raise Refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.partitions |= new
        self._partitions.take(session.holder, len(new))


_ABSENT: Final = object()
