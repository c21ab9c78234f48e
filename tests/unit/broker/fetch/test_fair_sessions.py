"""Sessions of fetches and share fetches: one client cannot have all of them."""

import random

import pytest
from tests.support.sessions import session_of

from hutong.broker.fetch.session_table import FetchSessions
from hutong.broker.share.share_sessions import SESSION_PARTITIONS_MAX, SESSIONS_PARTITIONS_MAX, ShareSessions
from hutong.foundation.errors import Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.groups.share.records import PartitionKey
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchTopic
from hutong.wire.kafka.error_codes import ErrorCode


def wanted(count: int) -> list[tuple[str | bytes, FetchPartition]]:
    return [("t", FetchPartition(partition=index)) for index in range(count)]


def test_one_client_leaves_slots_and_partitions_to_others() -> None:
    sessions = FetchSessions(20, random.Random(0).randbytes, 100)

    def opened(count: int, holder: str) -> bool:
        session = sessions.open(wanted(count), uses_ids=False, is_follower=False, now_ms=0, holder=holder)
        return session is not None

    assert [opened(1, "flood") for _ in range(20)].count(True) == 15
    assert opened(1, "other")
    assert not opened(70, "flood")
    assert opened(30, "other")
    sessions.check_invariants()


def test_a_session_that_grows_over_its_share_ends() -> None:
    sessions = FetchSessions(20, random.Random(0).randbytes, 100)
    session = sessions.open(wanted(50), uses_ids=False, is_follower=False, now_ms=0, holder="flood")
    assert session is not None
    more = [FetchTopic("u", partitions=[FetchPartition(partition=index) for index in range(45)])]
    answer = sessions.begin_session_fetch(session.id, 1, more, (), uses_ids=False, now_ms=0)
    assert answer == 0 or not isinstance(answer, ErrorCode)
    more = [FetchTopic("v", partitions=[FetchPartition(partition=index) for index in range(5)])]
    answer = sessions.begin_session_fetch(session.id, 2, more, (), uses_ids=False, now_ms=0)
    assert answer == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partitions == 0
    sessions.check_invariants()


class Sharers:
    def __init__(self, sessions_max: int) -> None:
        waits: WaitTable[None] = WaitTable("test", TimerWheel(0), 1_000)
        self.sessions = ShareSessions(waits, sessions_max, lambda _session: None)
        self.owners: list[Owner] = []

    def begin(self, member_id: str, holder: str, count: int = 1) -> int:
        client = session_of()
        self.owners.append(client.owner)
        keys = [PartitionKey("g", b"t" * 16, index) for index in range(count)]
        try:
            self.sessions.begin_session_fetch("g", member_id, keys, client, holder)
        except Refused as refused:
            return refused.code
        return 0


def test_one_client_leaves_share_sessions_to_others() -> None:
    sharers = Sharers(20)
    codes = [sharers.begin(f"flood-{number}", "flood") for number in range(20)]
    assert codes == [0] * 15 + [ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 5
    assert sharers.begin("other", "other") == 0
    assert sharers.begin("other", "other") == 0, "in place of the old one"
    for owner in sharers.owners:
        owner.end()
    assert len(sharers.sessions) == 0
    assert sharers.begin("flood", "flood") == 0


def test_partitions_of_all_share_sessions_have_a_bound() -> None:
    sharers = Sharers(1_000)
    fitting = SESSIONS_PARTITIONS_MAX * 3 // 4 // SESSION_PARTITIONS_MAX + 1
    codes = [sharers.begin(f"flood-{number}", "flood", SESSION_PARTITIONS_MAX) for number in range(fitting + 1)]
    assert codes == [0] * fitting + [ErrorCode.SHARE_SESSION_LIMIT_REACHED]
    assert sharers.begin("other", "other", SESSION_PARTITIONS_MAX) == 0
    with pytest.raises(Refused) as refused:
        sharers.sessions.continue_session("g", "other", 1, [PartitionKey("g", b"u" * 16, 0)])
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    for member_id in ("other", "flood-0"):
        sharers.sessions.end("g", member_id)
    assert sharers.begin("flood-new", "flood", SESSION_PARTITIONS_MAX) == 0
