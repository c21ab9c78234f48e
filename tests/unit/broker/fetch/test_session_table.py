"""The cache of fetch sessions: epochs, ids and evictions. Judged against lists searched in full."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.broker.fetch.session_table import EPOCH_MAX, EVICTION_MS, FetchSession, FetchSessions, next_epoch
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchTopic, ForgottenTopic
from hutong.wire.kafka.error_codes import ErrorCode

NOTHING: Sequence[FetchTopic] = ()


def cache(slots_max: int, partitions_max: int = 1000, seed: int = 0) -> FetchSessions:
    return FetchSessions(slots_max, random.Random(seed).randbytes, partitions_max)


def wanted(size: int, first: int = 0) -> list[tuple[str | bytes, FetchPartition]]:
    return [("t", FetchPartition(partition=first + index)) for index in range(size)]


def opened(sessions: FetchSessions, size: int, *, is_follower: bool = False, now_ms: int = 0) -> FetchSession | None:
    session = sessions.open(wanted(size), uses_ids=False, is_follower=is_follower, now_ms=now_ms)
    sessions.check_invariants()
    return session


def begun(sessions: FetchSessions, session: FetchSession, now_ms: int) -> FetchSession | ErrorCode:
    return sessions.begin_session_fetch(session.id, session.epoch, NOTHING, (), uses_ids=False, now_ms=now_ms)


def test_epochs_go_round_without_that_of_a_new_session() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, EPOCH_MAX)] == [1, 2, 1]


def test_a_request_must_know_the_id_the_epoch_and_how_topics_are_named() -> None:
    sessions = cache(2)
    session = opened(sessions, 1)
    assert session is not None

    def begin(session_id: int, epoch: int, *, uses_ids: bool = False) -> FetchSession | ErrorCode:
        return sessions.begin_session_fetch(session_id, epoch, NOTHING, (), uses_ids=uses_ids, now_ms=0)

    assert begin(session.id + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begin(session.id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert begin(session.id, 1, uses_ids=True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert begin(session.id, 1) is session
    assert begin(session.id, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert begin(session.id, 2) is session
    sessions.close(session.id)
    assert begin(session.id, 3) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_dropped() -> None:
    sessions = cache(1)
    session = opened(sessions, 2)
    assert session is not None
    forgotten = [ForgottenTopic(topic="t", partitions=[0, 1])]
    assert sessions.begin_session_fetch(session.id, 1, NOTHING, forgotten, uses_ids=False, now_ms=0) is session
    assert session.is_dropped
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_partitions_of_all_sessions_have_a_bound() -> None:
    sessions = cache(9, partitions_max=5)
    assert opened(sessions, 6) is None
    session = opened(sessions, 4)
    assert session is not None
    assert opened(sessions, 2) is None
    more = [FetchTopic(topic="u", partitions=[FetchPartition(partition=index) for index in range(2)])]
    answer = sessions.begin_session_fetch(session.id, 1, more, (), uses_ids=False, now_ms=0)
    assert answer == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_no_slots_no_sessions() -> None:
    assert opened(cache(0), 1) is None


def test_a_young_session_is_not_evicted_but_by_a_follower() -> None:
    sessions = cache(1)
    consumer = opened(sessions, 1)
    assert opened(sessions, 100) is None
    follower = opened(sessions, 1, is_follower=True)
    assert follower is not None
    assert sessions.get(follower.id) is follower
    assert consumer is not None
    assert consumer.is_dropped
    assert sessions.evictions_total == 1


@pytest.mark.parametrize(("size", "may"), [(2, False), (3, False), (4, True)])
def test_a_settled_session_gives_way_to_a_larger_one(size: int, may: bool) -> None:
    sessions = cache(1)
    settled = opened(sessions, 3)
    assert settled is not None
    assert begun(sessions, settled, EVICTION_MS + 1) is settled
    assert (opened(sessions, size, now_ms=EVICTION_MS + 1) is not None) is may


def test_a_silent_session_gives_way_to_any() -> None:
    sessions = cache(1)
    assert opened(sessions, 9, is_follower=True) is not None
    assert opened(sessions, 1, now_ms=EVICTION_MS) is None
    assert opened(sessions, 1, now_ms=EVICTION_MS + 1) is not None


class Model:
    """Kafka's rules over a plain list: evictable is who was found old enough when last used."""

    def __init__(self, slots_max: int) -> None:
        self.slots_max = slots_max
        self.rows: list[dict[str, int]] = []

    def open(self, session_id: int, size: int, is_follower: bool, now_ms: int) -> int | None:
        """The id of the evicted session, 0 if none has to be, None if the new one is declined."""
        evicted: int | None = 0
        if len(self.rows) >= self.slots_max:
            evicted = self._evict(size, is_follower, now_ms)
        if evicted is not None:
            self.rows = [row for row in self.rows if row["id"] != evicted]
            self.rows.append({"id": session_id, "size": size, "follower": is_follower, "made": now_ms, "used": now_ms})
        return evicted

    def use(self, session_id: int, now_ms: int) -> None:
        next(row for row in self.rows if row["id"] == session_id)["used"] = now_ms

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> int | None:
        stale = [row for row in self.rows if now_ms - row["used"] > EVICTION_MS]
        if stale:
            return min(stale, key=lambda row: row["used"])["id"]
        candidates = [
            (bool(row["follower"]), row["size"], row["id"])
            for row in self.rows
            if row["used"] - row["made"] > EVICTION_MS or (is_follower and not row["follower"])
        ]
        return min(candidates)[2] if candidates and (is_follower, size, 0) >= min(candidates) else None


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "use", "use", "close"]),
        st.integers(0, 5),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from([1, 50_000, 119_999, 120_001]),
    ),
    max_size=60,
)


@given(steps, st.integers(0, 4), st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_eviction_is_as_the_model_says(
    script: list[tuple[str, int, int, bool, int]], slots_max: int, seed: int
) -> None:
    sessions, model, now_ms = cache(slots_max, seed=seed), Model(slots_max), 0
    known: list[FetchSession] = []
    for kind, which, size, is_follower, passed_ms in script:
        now_ms += passed_ms
        living = [session for session in known if not session.is_dropped]
        chosen = living[which % len(living)] if living else None
        if kind == "open":
            session = sessions.open(wanted(size), uses_ids=False, is_follower=is_follower, now_ms=now_ms)
            evicted = model.open(session.id if session else -1, size, is_follower, now_ms)
            assert (session is None) is (evicted is None)
            if session is not None:
                known.append(session)
        elif chosen is not None and kind == "use":
            assert begun(sessions, chosen, now_ms) is chosen
            model.use(chosen.id, now_ms)
        elif chosen is not None:
            sessions.close(chosen.id)
            model.rows = [row for row in model.rows if row["id"] != chosen.id]
        sessions.check_invariants()
        assert {session.id for session in known if not session.is_dropped} == {row["id"] for row in model.rows}
