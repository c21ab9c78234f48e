"""SCRAM's server: the RFC's own exchange, and everybody who must not get through."""

import base64
import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scram_client import ScramClient, responded

from hutong.foundation.errors import ProtocolError
from hutong.security.sasl.scram import ScramExchange, TokenCredential
from hutong.security.sasl.scram_credentials import (
    MECHANISMS,
    SHA_256,
    SHA_512,
    Credential,
    Mechanism,
    credential,
    decoy,
    is_password,
    salted_password,
)
from hutong.security.sasl.scram_messages import parse_client_final, parse_client_first
from hutong.security.sasl.steps import Accepted, Challenge, Rejected, SaslFault

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
OURS = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


class Users:
    """One user, `user` with the password `pencil`, in both mechanisms."""

    def __init__(self, name: str = "user") -> None:
        self._name = name
        self._kept = {
            mechanism: credential(mechanism, salted_password(mechanism, b"pencil", SALT, 4096), SALT, 4096)
            for mechanism in MECHANISMS.values()
        }

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self._kept[mechanism] if user == self._name else None

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        return decoy(mechanism, b"secret", user, 4096, len(SALT))


USERS = Users()


def test_the_exchange_of_rfc_7677() -> None:
    exchange = ScramExchange(SHA_256, USERS, OURS)
    challenge = responded(exchange, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == Challenge(b"r=rOprNGfwEbeRWgbNEkqO" + OURS.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    final = f"c=biws,r=rOprNGfwEbeRWgbNEkqO{OURS},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert responded(exchange, final.encode()) == Accepted("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    again = responded(exchange, final.encode())
    assert isinstance(again, Rejected)
    assert again.fault is SaslFault.STATE


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("name", ["user", "a,b=c", "żółw"])
def test_names_with_commas_and_other_letters(mechanism: Mechanism, name: str) -> None:
    client = ScramClient(mechanism.hash_name, name, b"pencil")
    exchange = ScramExchange(mechanism, Users(name), OURS)
    challenge = responded(exchange, client.first())
    assert isinstance(challenge, Challenge)
    accepted = responded(exchange, client.final(challenge.data))
    assert isinstance(accepted, Accepted)
    assert accepted.user == name
    assert client.is_from_server(accepted.data)


def _fault(exchange: ScramExchange, message: bytes) -> SaslFault:
    step = responded(exchange, message)
    assert isinstance(step, Rejected)
    assert "pencil" not in step.detail
    assert "user" not in step.detail.replace("unknown user", "").replace("a user", "")
    return step.fault


def _challenged(user: str = "user", password: bytes = b"pencil") -> tuple[ScramExchange, ScramClient, bytes]:
    exchange, client = ScramExchange(SHA_256, USERS, OURS), ScramClient("sha256", user, password)
    challenge = responded(exchange, client.first())
    assert isinstance(challenge, Challenge)
    return exchange, client, challenge.data


def test_a_wrong_password_and_an_unknown_user_end_in_the_same_way() -> None:
    for user, password in (("user", b"pen"), ("nobody", b"pencil")):
        exchange, client, challenge = _challenged(user, password)
        assert _fault(exchange, client.final(challenge)) is SaslFault.CREDENTIALS


def test_an_unknown_user_always_gets_the_same_salt_and_each_another() -> None:
    first, second = _challenged("nobody")[2], _challenged("nobody")[2]
    assert first == second
    assert _challenged("somebody")[2] != first
    assert len(_challenged("user")[2]) == len(first)


def test_the_nonce_must_come_back_whole() -> None:
    """CVE-2024-56128: a client that repeats its own nonce alone, or ours with another before it, is refused."""
    for nonce in ("fyko+d2lbbFgONRv9qkxdawL", OURS, "x" + OURS, f"fyko+d2lbbFgONRv9qkxdawL{OURS}x"):
        exchange, client, challenge = _challenged()
        assert _fault(exchange, client.final(challenge, nonce=nonce)) is SaslFault.MALFORMED


def test_channel_binding_is_neither_offered_nor_faked() -> None:
    assert _fault(ScramExchange(SHA_256, USERS, OURS), b"p=tls-unique,,n=user,r=abc") is SaslFault.MALFORMED
    exchange, client, challenge = _challenged()
    assert _fault(exchange, client.final(challenge, header="y,,")) is SaslFault.MALFORMED


def test_a_client_that_could_bind_is_welcome() -> None:
    exchange, client = ScramExchange(SHA_256, USERS, OURS), ScramClient("sha256", "user", b"pencil")
    challenge = responded(exchange, client.first("y,,"))
    assert isinstance(challenge, Challenge)
    assert isinstance(responded(exchange, client.final(challenge.data, header="y,,")), Accepted)


def test_nobody_acts_for_another_user() -> None:
    client = ScramClient("sha256", "user", b"pencil")
    assert _fault(ScramExchange(SHA_256, USERS, OURS), client.first("n,a=other,")) is SaslFault.PRINCIPAL
    assert isinstance(ScramExchange(SHA_256, USERS, OURS).respond(client.first("n,a=user,")), Challenge)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"x,,n=user,r=a",
        b"n,,r=a,n=user",
        b"n,,n=us=er,r=a",
        b"n,,n=,r=a",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,m=1,n=user,r=a",
        b"n,,n=user,r=a,",
        b"n,,n=us\0er,r=a",
        b"n,,n=\xff,r=a",
    ],
)
def test_first_messages_that_are_none(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_client_first(message)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=a", b"c=biws,p=AA==", b"c=!,r=a,p=AA==", b"c=biws,r=a,p=?", b"\xff"]
)
def test_second_messages_that_are_none(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_client_final(message)


@given(st.binary(max_size=200) | st.text("nacrpme=,yv=0123456789+/", max_size=100).map(str.encode))
def test_messages_are_read_or_refused_and_nothing_else(message: bytes) -> None:
    for parse in (parse_client_first, parse_client_final):
        with contextlib.suppress(ProtocolError):
            parse(message)


@given(st.data())
def test_no_other_proof_is_taken(data: st.DataObject) -> None:
    exchange, client, challenge = _challenged()
    final = bytearray(client.final(challenge))
    at = data.draw(st.integers(0, len(final) - 1))
    changed = data.draw(st.integers(0, 255).filter(lambda byte: byte != final[at]))
    final[at] = changed
    step = responded(exchange, bytes(final))
    if isinstance(step, Accepted):  # the last bits of a base64 text mean nothing
        assert parse_client_final(bytes(final)).proof == parse_client_final(client.final(challenge)).proof


def test_what_is_kept_tells_no_password() -> None:
    kept = Users().credential("user", SHA_512)
    assert kept is not None
    assert is_password(SHA_512, kept, b"pencil")
    assert not is_password(SHA_512, kept, b"pencils")
    assert repr(kept) == "Credential(iterations=4096)"
    assert hashlib.sha512(kept.server_key).digest() != kept.stored_key


TOKEN = "id-of-a-token"
OF_TOKEN = credential(SHA_512, salted_password(SHA_512, b"hmac", SALT, 4096), SALT, 4096)


def _tokens(token_id: str, mechanism: Mechanism) -> TokenCredential:
    is_known = token_id == TOKEN
    kept = OF_TOKEN if is_known else decoy(mechanism, b"secret", token_id, 4096, len(SALT))
    return TokenCredential(kept, "user" if is_known else None, 5_000 if is_known else 0)


def _by_token(token_id: str, password: bytes) -> object:
    client = ScramClient("sha512", token_id, password)
    client._bare += ",tokenauth=true"
    exchange = ScramExchange(SHA_512, USERS, OURS, _tokens)
    challenge = responded(exchange, client.first())
    assert isinstance(challenge, Challenge)
    return responded(exchange, client.final(challenge.data))


def test_a_delegation_token_is_its_owner_for_its_life() -> None:
    accepted = _by_token(TOKEN, b"hmac")
    assert isinstance(accepted, Accepted)
    assert (accepted.user, accepted.session_ms, accepted.is_by_token) == ("user", 5_000, True)


@pytest.mark.parametrize(("token_id", "password"), [(TOKEN, b"pencil"), ("another", b"hmac"), ("user", b"pencil")])
def test_a_wrong_or_unknown_token_is_refused_like_a_password(token_id: str, password: bytes) -> None:
    assert _by_token(token_id, password) == Rejected(SaslFault.CREDENTIALS, "unknown user or wrong password")


def test_tokens_are_refused_where_there_are_none() -> None:
    rejected = ScramExchange(SHA_512, USERS, OURS).respond(b"n,,n=user,r=a,tokenauth=true")
    assert isinstance(rejected, Rejected)
    assert rejected.fault is SaslFault.MALFORMED
