"""Sessions end by themselves, and only so many are kept."""

from hutong.console.limits import SESSION_IDLE_MS, SESSION_MS_MAX, SESSIONS_MAX
from hutong.console.sessions import BrowserSessions


def test_a_session_ends_when_it_is_idle() -> None:
    sessions = BrowserSessions()
    sessions.open("a", "c", "ann", "secret", 0)
    assert sessions.find("a", SESSION_IDLE_MS) is not None
    assert sessions.find("a", 2 * SESSION_IDLE_MS + 1) is None
    assert len(sessions) == 0


def test_a_session_ends_even_in_use() -> None:
    sessions = BrowserSessions()
    sessions.open("a", "c", "ann", "secret", 0)
    for now_ms in range(0, SESSION_MS_MAX + 1, SESSION_IDLE_MS):
        assert sessions.find("a", now_ms) is not None
    assert sessions.find("a", SESSION_MS_MAX + 1) is None


def test_above_the_bound_the_one_that_was_unused_longest_ends() -> None:
    sessions = BrowserSessions()
    for number in range(SESSIONS_MAX):
        sessions.open(str(number), "c", "", "", number)
    assert sessions.find("0", SESSIONS_MAX) is not None, "it is in use again"
    sessions.open("new", "c", "", "", SESSIONS_MAX)
    assert sessions.find("1", SESSIONS_MAX) is None
    assert sessions.find("0", SESSIONS_MAX) is not None
    assert len(sessions) == SESSIONS_MAX


def test_expired_ones_leave_before_any_other() -> None:
    sessions = BrowserSessions()
    sessions.open("old", "c", "", "", 0)
    sessions.open("new", "c", "", "", SESSION_IDLE_MS + 1)
    assert len(sessions) == 1


def test_secrets_are_not_shown() -> None:
    session = BrowserSessions().open("token-text", "csrf-text", "ann", "password-text", 0)
    for secret in ("token-text", "csrf-text", "password-text"):
        assert secret not in repr(session)
