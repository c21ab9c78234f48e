"""Logins with access tokens on one connection: good, refused, and waiting for keys. No sockets, no real tokens."""

from typing import Final

from tests.unit.broker.authentication.test_authentication import World

from hutong.broker.authentication.exchange import LINGER_MS
from hutong.foundation.errors import LimitExceeded, OwnerGone
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal
from hutong.security.sasl.steps import SaslFault

LIFE_MS: Final = 60_000


class Tokens:
    """`alice` is a good token; `new` is one whose key comes with the next fetch."""

    def __init__(self) -> None:
        self.known = {"alice": "alice", "bob": "bob"}
        self.waiting: list[Continuation[None]] = []
        self.is_full = False

    def check(self, token: str, *, may_wait: bool) -> TokenOwner | TokenRefusal | None:
        if token in self.known:
            return TokenOwner(self.known[token], LIFE_MS)
        return None if token.startswith("new") and may_wait else TokenRefusal("a reason for the log")

    def wait(self, then: Continuation[None], owner: Owner) -> None:
        if self.is_full:
            raise LimitExceeded("token_keys", 1)
        self.waiting.append(then)

    def fetched(self) -> None:
        waiting, self.waiting = self.waiting, []
        for then in waiting:
            then(None)


def message(token: str, name: str = "") -> bytes:
    return f"n,{'a=' + name if name else ''},\x01auth=Bearer {token}\x01\x01".encode()


def world_of(tokens: Tokens, session_ms: int = 0) -> World:
    world = World(session_ms, tokens=tokens)
    assert world.handshake("OAUTHBEARER").mechanisms == ["OAUTHBEARER"]
    return world


def test_a_good_token_lets_in_until_it_ends() -> None:
    world = world_of(Tokens())
    answer = world.authenticate(message("alice"))
    assert (answer.error_code, answer.session_lifetime_ms, answer.auth_bytes) == (0, LIFE_MS, b"")
    assert str(world.peer.session.principal) == "User:alice"
    assert world.reaches()
    world.pass_ms(LIFE_MS)
    assert not world.reaches()
    assert world.is_closed
    assert world.figures.expired_total == 1


def test_a_new_token_in_time_keeps_the_connection() -> None:
    world = world_of(Tokens())
    world.authenticate(message("alice"))
    world.pass_ms(LIFE_MS // 2)
    assert world.handshake("OAUTHBEARER").error_code == 0
    assert world.authenticate(message("alice")).session_lifetime_ms == LIFE_MS
    world.pass_ms(LIFE_MS // 2)
    assert world.reaches()
    assert world.figures.again_total == {"OAUTHBEARER": 1}


def test_a_listener_may_end_sessions_sooner() -> None:
    assert world_of(Tokens(), 1_000).authenticate(message("alice")).session_lifetime_ms == 1_000


def test_a_refused_token_is_told_as_json_and_then_by_an_error() -> None:
    world = world_of(Tokens())
    challenge = world.authenticate(message("mallory"))
    assert (challenge.error_code, challenge.session_lifetime_ms) == (0, 0)
    assert challenge.auth_bytes == b'{"status":"invalid_token"}'
    assert world.authenticate(b"\x01") is None
    world.pass_ms(100)
    failed = world.answer(36, 2)
    assert failed.error_code == 58
    assert "token" in failed.error_message
    world.pass_ms(LINGER_MS)
    assert world.is_closed
    assert world.figures.failed_total[SaslFault.TOKEN] == 1
    assert not world.behind.keys


def test_nothing_else_is_answered_after_a_refused_token() -> None:
    world = world_of(Tokens())
    world.authenticate(message("mallory"))
    assert not world.reaches()


def test_another_name_than_the_tokens_is_refused() -> None:
    world = world_of(Tokens())
    assert world.authenticate(message("alice", "bob")) is None
    world.pass_ms(100)
    assert world.answer(36, 2).error_code == 58


def test_a_token_of_a_new_key_waits_for_it() -> None:
    tokens = Tokens()
    world = world_of(tokens)
    assert world.authenticate(message("new")) is None
    tokens.known["new"] = "carol"
    tokens.fetched()
    assert world.answer(36, 2).session_lifetime_ms == LIFE_MS
    assert str(world.peer.session.principal) == "User:carol"


def test_a_token_whose_key_did_not_come_is_refused() -> None:
    tokens = Tokens()
    world = world_of(tokens)
    assert world.authenticate(message("new")) is None
    tokens.fetched()
    assert world.answer(36, 2).auth_bytes == b'{"status":"invalid_token"}'
    assert world.authenticate(b"\x01") is None
    world.pass_ms(100)
    assert world.answer(36, 2).error_code == 58


def test_too_many_that_wait_are_told_to_come_again() -> None:
    tokens = Tokens()
    tokens.is_full = True
    world = world_of(tokens)
    assert world.authenticate(message("new")) is None
    world.pass_ms(100)
    assert "try again" in world.answer(36, 2).error_message


def test_a_wait_that_ends_with_the_node_is_not_answered() -> None:
    tokens = Tokens()
    world = world_of(tokens)
    world.authenticate(message("new"))
    tokens.waiting.pop()(OwnerGone("the node is stopping"))
    assert world.sent() == b""
