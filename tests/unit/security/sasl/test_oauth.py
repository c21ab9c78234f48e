"""The exchange of OAUTHBEARER, without tokens' content."""

import json

import pytest

from hutong.security.oauth.outcomes import TokenStatus
from hutong.security.sasl.machine import Login, Rules, SaslPhase
from hutong.security.sasl.oauth import OauthExchange
from hutong.security.sasl.oauth_messages import MESSAGE_BYTES_MAX, PAIRS_MAX, parse_client_token
from hutong.security.sasl.steps import Accepted, Challenge, CheckToken, Rejected, SaslFault

GOOD = b"n,,\x01auth=Bearer to.k-e_n==\x01\x01"


def begun(message: bytes = GOOD, session_ms: int = 0) -> tuple[Login, CheckToken]:
    login = Login(Rules({"OAUTHBEARER": lambda: OauthExchange("kafka")}, session_ms))
    assert login.begin_exchange("OAUTHBEARER", is_raw=False, now_ms=0) is None
    asked = login.respond(message)
    assert isinstance(asked, CheckToken)
    login.check_invariants()
    return login, asked


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (GOOD, ""),
        (b"y,,\x01auth=bearer   to.k-e_n==\x01\x01", ""),
        (b"n,a=ali=2Cce=3D,\x01host=h\x01port=1\x01auth=Bearer to.k-e_n==\x01traceId=1 2\x01\x01", "ali,ce="),
    ],
)
def test_messages_that_are_read(message: bytes, name: str) -> None:
    parsed = parse_client_token(message)
    assert (parsed.token, parsed.authorization_id) == ("to.k-e_n==", name)
    assert "to.k" not in repr(parsed)
    assert "to.k" not in repr(begun(message)[1])


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\x01\x01",
        b"n,,",
        b"n,,\x01\x01",
        GOOD[:-1],
        GOOD + b"\x01",
        GOOD + b"x",
        b"p=tls-unique" + GOOD[1:],
        b"z" + GOOD[1:],
        b"n," + GOOD[3:],
        b"n,alice," + GOOD[3:],
        b"n,a=," + GOOD[3:],
        b"n,a=a=b," + GOOD[3:],
        b"n,a=a\nb," + GOOD[3:],
        b"n,,\xff" + GOOD[3:],
        b"n,,\x01auth=Basic dXNlcg==\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01b1=c\x01\x01",
        b"n,,\x01auth=Bearer a\x01b=\x00\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,," + b"\x01a=b" * (PAIRS_MAX + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ],
)
def test_messages_that_are_none(message: bytes) -> None:
    outcome = OauthExchange().respond(message)
    assert isinstance(outcome, Rejected)
    assert outcome.fault is SaslFault.MALFORMED


def test_a_session_ends_with_its_token() -> None:
    for listener_ms, expected in ((0, 5_000), (9_000, 5_000), (2_000, 2_000)):
        login, asked = begun(session_ms=listener_ms)
        assert login.token_checked(asked.outcomes.owned("alice", 5_000)) == Accepted("alice", session_ms=5_000)
        assert (login.user, login.session_ms, login.may_begin_again(0)) == ("alice", expected, True)
        login.check_invariants()


def test_a_refused_token_ends_after_the_clients_answer() -> None:
    login, asked = begun()
    challenge = login.token_checked(asked.outcomes.refused(TokenStatus.SCOPE, "why"))
    assert isinstance(challenge, Challenge)
    assert json.loads(challenge.data) == {"status": "insufficient_scope", "scope": "kafka"}
    login.check_invariants()
    assert login.respond(b"\x01") == Rejected(SaslFault.TOKEN, "why")
    assert login.phase is SaslPhase.FAILED


def test_another_answer_to_a_refused_token_fails_too() -> None:
    login, asked = begun()
    challenge = login.token_checked(asked.outcomes.refused(TokenStatus.INVALID, "why"))
    assert isinstance(challenge, Challenge)
    assert challenge.data == b'{"status":"invalid_token"}'
    # A second token in the same exchange is not looked at.
    assert isinstance(login.respond(GOOD), Rejected)


def test_nobody_acts_for_another_user() -> None:
    login, asked = begun(b"n,a=bob," + GOOD[3:])
    rejected = login.token_checked(asked.outcomes.owned("alice", 1))
    assert isinstance(rejected, Rejected)
    assert rejected.fault is SaslFault.PRINCIPAL
    login, asked = begun(b"n,a=alice," + GOOD[3:])
    assert isinstance(login.token_checked(asked.outcomes.owned("alice", 1)), Accepted)


def test_a_second_message_is_refused() -> None:
    exchange = OauthExchange()
    assert isinstance(exchange.respond(GOOD), CheckToken)
    assert exchange.respond(GOOD) == Rejected(SaslFault.STATE, "OAUTHBEARER has one message")


def test_re_authentication_keeps_the_user() -> None:
    login, asked = begun()
    login.token_checked(asked.outcomes.owned("alice", 5_000))
    assert login.begin_exchange("OAUTHBEARER", is_raw=False, now_ms=0) is None
    again = login.respond(GOOD)
    assert isinstance(again, CheckToken)
    rejected = login.token_checked(again.outcomes.owned("bob", 5_000))
    assert isinstance(rejected, Rejected)
    assert rejected.fault is SaslFault.PRINCIPAL
