"""A connection's way through SASL, told as transcripts and as a property."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.security.sasl.machine import Login, Rules, SaslPhase
from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.steps import Accepted, CheckPassword, Rejected, SaslFault, Step

ALICE, BOB = b"\0alice\0a", b"\0bob\0b"


class Trusting:
    """A mechanism that believes whoever says a name."""

    def respond(self, message: bytes) -> Step:
        return Accepted(message.decode())


def _login(session_ms: int = 0) -> Login:
    return Login(Rules({"PLAIN": PlainExchange, "TRUST": Trusting}, session_ms))


def _authenticated(session_ms: int = 0, now_ms: int = 0) -> Login:
    login = _login(session_ms)
    assert login.begin_exchange("TRUST", is_raw=False, now_ms=now_ms) is None
    assert login.respond(b"alice") == Accepted("alice")
    return login


def _fault(step: Step | None) -> SaslFault:
    assert isinstance(step, Rejected)
    return step.fault


def test_a_password_is_checked_between_message_and_answer() -> None:
    login = _login()
    assert login.begin_exchange("PLAIN", is_raw=True, now_ms=0) is None
    assert (login.phase, login.is_raw, login.is_open) == (SaslPhase.EXCHANGE, True, False)
    assert login.respond(ALICE) == CheckPassword("alice", b"a")
    assert login.phase is SaslPhase.CHECKING
    assert login.checked("alice", is_right=True) == Accepted("alice")
    assert (login.user, login.mechanism, login.is_open) == ("alice", "PLAIN", True)


def test_a_wrong_password_is_the_end() -> None:
    login = _login()
    login.begin_exchange("PLAIN", is_raw=False, now_ms=0)
    login.respond(ALICE)
    assert _fault(login.checked("alice", is_right=False)) is SaslFault.CREDENTIALS
    assert _fault(login.begin_exchange("PLAIN", is_raw=False, now_ms=0)) is SaslFault.STATE
    assert _fault(login.respond(ALICE)) is SaslFault.STATE


def test_a_mechanism_that_is_not_offered() -> None:
    assert _fault(_login().begin_exchange("GSSAPI", is_raw=False, now_ms=0)) is SaslFault.MECHANISM


def test_messages_before_the_handshake_and_two_handshakes() -> None:
    assert _fault(_login().respond(ALICE)) is SaslFault.STATE
    login = _login()
    login.begin_exchange("PLAIN", is_raw=False, now_ms=0)
    assert _fault(login.begin_exchange("PLAIN", is_raw=False, now_ms=0)) is SaslFault.STATE


def test_sessions_that_do_not_end_are_not_begun_again() -> None:
    assert not _authenticated().may_begin_again(10_000)


def test_a_session_goes_on_as_the_same_user_by_the_same_mechanism() -> None:
    login = _authenticated(session_ms=60_000)
    assert login.may_begin_again(1)
    login.expire()
    assert not login.is_open
    assert login.begin_exchange("TRUST", is_raw=False, now_ms=70_000) is None
    assert not login.is_open
    assert login.respond(b"alice") == Accepted("alice")
    assert login.is_open
    assert not login.may_begin_again(70_999)
    assert login.may_begin_again(71_000)


def test_nobody_becomes_another_user_or_changes_the_mechanism() -> None:
    login = _authenticated(session_ms=60_000)
    login.begin_exchange("TRUST", is_raw=False, now_ms=0)
    assert _fault(login.respond(b"bob")) is SaslFault.PRINCIPAL
    for mechanism, is_raw in (("PLAIN", False), ("TRUST", True)):
        assert _fault(_authenticated(60_000).begin_exchange(mechanism, is_raw=is_raw, now_ms=0)) is SaslFault.MECHANISM


def test_an_expired_session_cannot_be_used_while_it_is_begun_again() -> None:
    login = _authenticated(session_ms=60_000)
    login.begin_exchange("TRUST", is_raw=False, now_ms=0)
    login.expire()
    assert login.phase is SaslPhase.EXCHANGE
    login.respond(b"alice")
    assert login.is_open


events = st.lists(st.tuples(st.sampled_from(["begin", "message", "right", "wrong", "expire", "fail"]), st.booleans()))


@given(events, st.sampled_from([0, 60_000]))
def test_nobody_is_let_in_without_an_exchange(script: list[tuple[str, bool]], session_ms: int) -> None:
    login, now_ms, has_failed = _login(session_ms), 0, False
    for kind, flag in script:
        now_ms += 600
        if kind == "begin":
            login.begin_exchange("PLAIN" if flag else "TRUST", is_raw=False, now_ms=now_ms)
        elif kind == "message":
            login.respond(ALICE if login.mechanism == "PLAIN" else b"alice" if flag else b"bob")
        elif kind in ("right", "wrong") and login.phase is SaslPhase.CHECKING:
            login.checked("alice", is_right=kind == "right")
        elif kind == "expire":
            login.expire()
        elif kind == "fail" and flag:
            login.fail(SaslFault.STATE, "told to")
        has_failed = has_failed or login.phase is SaslPhase.FAILED
        login.check_invariants()
        assert not (has_failed and login.is_open)
        assert login.accepted_total or not login.is_open
