"""Incremental fetch sessions (KIP-227): the partitions of a client and their last answers, so that neither is repeated.

A session is a client's list of partitions, kept here under an id. Each request raises its epoch by one and names only
changes of the list; each answer has only the partitions with news. The number of slots is bounded. A session is evicted
for another if it was silent for two minutes, or if it is two minutes old and the new one has precedence: a follower's,
or one of more partitions.

Strategy: a session also keeps the set of *due* entries. An entry is due from the moment when something may have changed
(its log grew or was deleted, the client changed its question) until a pass finds no news for it. So a request costs as
much as its due entries, and a thousand idle partitions cost nothing. An entry that is not due watches its log, which
calls it once. Entries rotate, as Kafka's do: one that was answered with records goes behind all others (fairness).

Knows nothing of requests, topics or journals: an entry watches anything with `watch` and `unwatch`. Time arrives with
each call.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from hutong.foundation.fair_shares import NOBODY, FairShares
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData

NO_SESSION_ID: Final = 0
FIRST_EPOCH: Final = 0  # asks for a new session
NO_SESSION_EPOCH: Final = -1  # asks for none, and ends the one that is named
EPOCH_MAX: Final = 2**31 - 1
EVICTION_MS: Final = 2 * 60 * 1000
PARTITIONS_MAX: Final = 500_000  # of all sessions together: a bound on memory that Kafka does not have
_NOTHING_SENT: Final = -1

Key = tuple[str | bytes, int]  # a topic's name, or its id from Fetch v13 on, and a partition of it
_Worth = tuple[bool, int, int]  # is it a follower's, its size, its id: the least is evicted first


class Watched(Protocol):
    """A log that calls back when there may be news."""

    def watch(self, callback: Callable[[], None], /) -> None: ...

    def unwatch(self, callback: Callable[[], None], /) -> None: ...


class Entry:
    """One partition of a session: the client's question, and the last answer to it.

    Invariant: it is due, or it watches something.
    """

    __slots__ = ("_session", "asked", "high_watermark", "log_start_offset", "name", "topic", "turn", "watched")

    def __init__(self, session: FetchSession, topic: str | bytes, asked: FetchPartition, turn: int) -> None:
        self._session = session
        self.topic = topic
        self.name = topic if isinstance(topic, str) else None  # of the topic, once it was seen
        self.asked = asked
        self.turn = turn  # the least comes first
        self.high_watermark = self.log_start_offset = _NOTHING_SENT
        self.watched: Watched | None = None

    def is_known(self, data: PartitionData) -> bool:
        """True if the client has already been sent all that `data` contains."""
        return not (
            data.records
            or data.error_code
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            # A follower must see it to truncate (KIP-595).
            or data.diverging_epoch.epoch >= 0
            # A consumer must see it to ask the other replica (KIP-392).
            or data.preferred_read_replica >= 0
        )

    def note_sent(self, data: PartitionData) -> None:
        """Note what the client is sent; after an error everything is sent again."""
        self.high_watermark = _NOTHING_SENT if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset

    def watch(self, log: Watched) -> None:
        """Let the log's next call make the entry due."""
        # A topic that was deleted and made again has another log.
        if self.watched is not log:
            self.unwatch()
            self.watched = log
            log.watch(self.called)

    def unwatch(self) -> None:
        watched, self.watched = self.watched, None
        # A log must not keep a partition that the client has forgotten.
        if watched is not None:
            watched.unwatch(self.called)

    def called(self) -> None:
        """Make the entry due: the log has news. One call is enough until the next pass."""
        self.unwatch()
        self._session.put_due(self)
        self._session.wake()


def _nobody_waits() -> None:
    """Do nothing: no request of the session waits."""


class FetchSession:
    """One client's list. `epoch` is what its next request must say."""

    __slots__ = (
        "_next_turn",
        "cached_size",
        "created_at_ms",
        "due",
        "entries",
        "epoch",
        "holder",
        "id",
        "is_dropped",
        "is_follower",
        "isolation_level",
        "used_at_ms",
        "uses_ids",
        "wake",
    )

    def __init__(
        self, session_id: int, *, uses_ids: bool, is_follower: bool, now_ms: int, holder: str = NOBODY
    ) -> None:
        self.id = session_id
        self.holder = holder  # the client whose share of the bounds it takes
        self.epoch = FIRST_EPOCH + 1
        self.uses_ids = uses_ids
        self.is_follower = is_follower
        self.created_at_ms = self.used_at_ms = now_ms
        self.cached_size = 0  # what the cache has counted; differs from len(entries) only during an update
        self.entries: dict[Key, Entry] = {}
        self.due: dict[Entry, None] = {}  # a part of the entries
        self.isolation_level = 0
        self.is_dropped = False
        self.wake: Callable[[], None] = _nobody_waits
        self._next_turn = 0

    def put(self, topic: str | bytes, asked: FetchPartition) -> Entry:
        """Set the client's question about a partition; the entry is due."""
        key = topic, asked.partition
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(self, topic, asked, self._take_turn())
        else:
            entry.asked = asked
        self.due[entry] = None
        return entry

    def forget(self, topic: str | bytes, partition: int) -> None:
        entry = self.entries.pop((topic, partition), None)
        if entry is not None:
            entry.unwatch()
            self.due.pop(entry, None)

    def put_due(self, entry: Entry) -> None:
        if not self.is_dropped:
            self.due[entry] = None

    def all_due(self) -> None:
        """Make every entry due: something has changed that concerns them all."""
        # Such as other isolation: a partition without news for one reader may have some for the other.
        self.due = dict.fromkeys(self.entries.values())

    def put_idle(self, entry: Entry, log: Watched) -> None:
        """Let the entry wait: there is no news of it until its log calls."""
        if not self.is_dropped:
            entry.watch(log)
            self.due.pop(entry, None)

    def put_last(self, entry: Entry) -> None:
        """Put an entry behind the others: it was answered with records."""
        entry.turn = self._take_turn()

    def in_turn(self) -> list[Entry]:
        """The due entries, in the order in which they may fill an answer."""
        due = list(self.due)
        # Most answers concern one partition: sorting a single entry is not free at this rate.
        if len(due) > 1:
            due.sort(key=lambda entry: entry.turn)
        return due

    def wake_no_more(self, wake: Callable[[], None]) -> None:
        """The request that asked for `wake` waits no longer; another one may."""
        # A newer request of the session may have set its own.
        if self.wake == wake:
            self.wake = _nobody_waits

    def drop(self) -> None:
        """The session is no longer in the cache. A request that waits in it ends as it would have."""
        self.is_dropped = True
        for entry in self.entries.values():
            entry.unwatch()
        self.all_due()

    def check_invariants(self) -> None:
        entries = set(self.entries.values())
        assert self.due.keys() <= entries
        assert self.is_dropped or all(entry in self.due or entry.watched is not None for entry in entries)
        assert len({entry.turn for entry in entries}) == len(entries)
        assert all(entry.turn < self._next_turn for entry in entries)

    def _take_turn(self) -> int:
        self._next_turn += 1
        return self._next_turn - 1


class FetchSessions:
    """All sessions of a node, by id."""

    def __init__(
        self, slots_max: int, random_bytes: Callable[[int], bytes], partitions_max: int = PARTITIONS_MAX
    ) -> None:
        self._slots = FairShares("fetch.session_slots", slots_max)
        self._partitions = FairShares("PARTITIONS_MAX", partitions_max)
        self._random_bytes = random_bytes
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the one that was silent longest comes first
        self._for_followers: list[_Worth] = []  # sorted: what a follower's session may take the place of
        self._for_all: list[_Worth] = []  # sorted, a part of those: what any session may
        self.evictions_total = 0

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return self._partitions.taken

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def open(
        self,
        wanted: Sequence[tuple[str | bytes, FetchPartition]],
        *,
        uses_ids: bool,
        is_follower: bool,
        now_ms: int,
        holder: str = NOBODY,
    ) -> FetchSession | None:
        """A new session for the wanted partitions, or None if there is no room, or none for this client."""
        # Before an eviction: a client over its share must not push out another's session.
        if not self._partitions.may_take(holder, len(wanted)):
            return None
        # No slot and nothing to evict: without a session the client sends full fetches, which always work (KIP-227).
        if len(self._sessions) >= self._slots.maximum and not self._evict(len(wanted), is_follower, now_ms):
            return None
        # An eviction has made room, but not for a client that has its share of slots already.
        if not self._slots.may_take(holder):
            return None
        session = FetchSession(self._new_id(), uses_ids=uses_ids, is_follower=is_follower, now_ms=now_ms, holder=holder)
        self._slots.take(holder)
        for topic, asked in wanted:
            session.put(topic, asked)
        self._sessions[session.id] = session
        self._touch(session, now_ms)
        return session

    def close(self, session_id: int) -> None:
        """The client ends its session, if it is there."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._drop(session)

    def begin_session_fetch(
        self,
        session_id: int,
        epoch: int,
        topics: Sequence[FetchTopic],
        forgotten: Iterable[ForgottenTopic],
        *,
        uses_ids: bool,
        now_ms: int,
    ) -> FetchSession | ErrorCode:
        """The next request in a session, whose list it changes. A session without partitions is dropped."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        # A lost answer: the client must start over with a full fetch (KIP-227).
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        # The client upgraded to version 13 within the session (KIP-516).
        if session.uses_ids != uses_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for topic in topics:
            name = topic.topic_id if uses_ids else topic.topic
            for asked in topic.partitions:
                session.put(name, asked)
        # After the additions: a request that names a partition in both lists ends without it.
        for gone in forgotten:
            for index in gone.partitions:
                session.forget(gone.topic_id if uses_ids else gone.topic, index)
        # The client has forgotten all of them: an empty session would only take a slot.
        if not session.entries:
            self._drop(session)
            return session
        more = len(session.entries) - session.cached_size
        # The list has grown beyond the bound: without a session the client sends full fetches.
        if more > 0 and not self._partitions.may_take(session.holder, more):
            self._drop(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session, now_ms)
        session.epoch = next_epoch(epoch)
        return session

    def check_invariants(self) -> None:
        assert len(self._sessions) == self._slots.taken <= self._slots.maximum
        assert self.partitions == sum(session.cached_size for session in self._sessions.values())
        assert self.partitions <= self._partitions.maximum
        used = [session.used_at_ms for session in self._sessions.values()]
        assert used == sorted(used)
        assert self._for_followers == sorted(self._for_followers)
        assert self._for_all == sorted(self._for_all)
        worths = {_worth(session) for session in self._sessions.values()}
        assert set(self._for_all) <= set(self._for_followers) <= worths
        for session_id, session in self._sessions.items():
            assert session.id == session_id
            assert not session.is_dropped
            assert session.cached_size == len(session.entries)
            session.check_invariants()

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> bool:
        """Drop the one that is silent too long, or else the least one, if that is worth less."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        # Kafka's rule (FetchSessionCache.tryEvict): the stale one first, else one with fewer partitions, where
        # followers win against consumers.
        if now_ms - oldest.used_at_ms > EVICTION_MS:
            evicted = oldest
        else:
            candidates = self._for_followers if is_follower else self._for_all
            if not candidates or (is_follower, size, 0) < candidates[0]:
                return False
            evicted = self._sessions[candidates[0][2]]
        self._drop(evicted)
        self.evictions_total += 1
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_at_ms = now_ms
        self._sessions.move_to_end(session.id)
        self._forget_worth(session)
        self._partitions.take(session.holder, len(session.entries) - session.cached_size)
        session.cached_size = len(session.entries)
        # A session younger than that is safe, or sessions would evict each other in turn.
        is_settled = now_ms - session.created_at_ms > EVICTION_MS
        # A follower's request may push out a consumer's session at any age; a consumer's never one that is young.
        if is_settled or not session.is_follower:
            insort(self._for_followers, _worth(session))
        if is_settled:
            insort(self._for_all, _worth(session))

    def _drop(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._forget_worth(session)
        self._slots.release(session.holder)
        self._partitions.release(session.holder, session.cached_size)
        session.drop()

    def _forget_worth(self, session: FetchSession) -> None:
        worth = _worth(session)
        for candidates in (self._for_followers, self._for_all):
            at = bisect_left(candidates, worth)
            if at < len(candidates) and candidates[at] == worth:
                del candidates[at]

    def _new_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._random_bytes(4), "big") & EPOCH_MAX
            # Random ids, as in Kafka: a client of a former process finds no session by chance.
            if session_id != NO_SESSION_ID and session_id not in self._sessions:
                return session_id


def next_epoch(epoch: int) -> int:
    """Epochs go round, and leave out the one that asks for a new session."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _worth(session: FetchSession) -> _Worth:
    return session.is_follower, session.cached_size, session.id
