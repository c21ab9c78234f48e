"""How long a leader serves without a sign of the cluster."""

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.lease import FOR_EVER_MS, LeaderLease

SESSION_MS = 4_000
CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST
THREE = (1, 2, 3)


def nobody(_node: int) -> int | None:
    return None


def looked_until(lease: LeaderLease, session: SessionState, start_ms: int, end_ms: int) -> None:
    for now_ms in range(start_ms, end_ms + 1, lease.look_ms):
        lease.look(session, now_ms, now_ms)


def lease_of(now_ms: int) -> LeaderLease:
    """Of node 1, connected until now."""
    lease = LeaderLease(1, SESSION_MS, 0)
    looked_until(lease, CONNECTED, 0, now_ms)
    return lease


def test_nothing_was_heard_at_the_beginning() -> None:
    assert LeaderLease(1, SESSION_MS, 0).served_until_ms(THREE, nobody) == 0


def test_who_is_alone_in_its_set_needs_nobody() -> None:
    assert LeaderLease(1, SESSION_MS, 0).served_until_ms((1,), nobody) == FOR_EVER_MS
    assert LeaderLease(1, SESSION_MS, 0).served_until_ms((), nobody) == FOR_EVER_MS


def test_the_coordinator_counts_until_it_is_suspended() -> None:
    lease = lease_of(10_000)
    looked_until(lease, SUSPENDED, 10_500, 60_000)

    assert lease.served_until_ms(THREE, nobody) == 10_000 + SESSION_MS

    lease.look(LOST, 60_500, 60_500)
    lease.look(CONNECTED, 61_000, 61_000)

    assert lease.served_until_ms(THREE, nobody) == 61_000 + SESSION_MS


def test_without_a_coordinator_a_majority_of_the_set_counts() -> None:
    lease = LeaderLease(1, SESSION_MS, 0)
    answers = {2: 700, 3: 900, 4: 100, 5: 300}

    assert lease.served_until_ms((1, 2), {2: 700}.get) == 700 + SESSION_MS
    assert lease.served_until_ms((1, 2, 3), answers.get) == 900 + SESSION_MS
    assert lease.served_until_ms((1, 2, 3), {3: 900}.get) == 900 + SESSION_MS
    assert lease.served_until_ms((1, 2, 3, 4), answers.get) == 700 + SESSION_MS
    assert lease.served_until_ms((1, 2, 3, 4, 5), answers.get) == 700 + SESSION_MS
    assert lease.served_until_ms((1, 2, 3, 4), {2: 700}.get) == 0


def test_the_later_of_both_counts() -> None:
    lease = lease_of(10_000)

    assert lease.served_until_ms((1, 2), {2: 9_000}.get) == 10_000 + SESSION_MS
    assert lease.served_until_ms((1, 2), {2: 11_000}.get) == 11_000 + SESSION_MS


def test_after_a_pause_a_session_that_seems_to_be_there_counts_only_once_it_has_lasted() -> None:
    """The process was stopped: the news that its session has ended has not been read yet."""
    lease = lease_of(10_000)
    woken_ms = 30_000
    lease.look(CONNECTED, woken_ms, woken_ms)

    assert lease.served_until_ms(THREE, nobody) == 10_000 + SESSION_MS

    looked_until(lease, CONNECTED, woken_ms + lease.look_ms, woken_ms + SESSION_MS)

    assert lease.served_until_ms(THREE, nobody) == woken_ms + 2 * SESSION_MS


def test_after_a_pause_a_session_that_is_there_anew_counts_at_once() -> None:
    lease = lease_of(10_000)
    lease.look(LOST, 30_000, 30_000)
    lease.look(CONNECTED, 30_100, 30_100)

    assert lease.served_until_ms(THREE, nobody) == 30_100 + SESSION_MS


def test_the_coordinator_counts_no_longer_than_the_controller() -> None:
    lease = lease_of(10_000)
    for now_ms in range(10_500, 60_000, lease.look_ms):
        lease.look(CONNECTED, 10_200, now_ms)

    assert lease.served_until_ms(THREE, nobody) == 10_200 + SESSION_MS


def test_a_controller_that_is_not_known_proves_nothing() -> None:
    lease = LeaderLease(1, SESSION_MS, 0)
    lease.look(CONNECTED, None, 500)

    assert lease.served_until_ms(THREE, nobody) == 0
