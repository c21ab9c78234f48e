"""Our SCRAM client with our SCRAM server, which Kafka's own clients judge; and servers that lie."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scram_client import responded

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.scram import ITERATIONS_MAX, ScramClient
from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.scram_credentials import MECHANISM_NAMES, Credential, Mechanism, credential, salted_password
from hutong.security.sasl.steps import Accepted, Challenge, Rejected

SALT = b"a salt of some bytes"
NONCE, SERVER_NONCE = "ournonce", "theirnonce"
names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


class Users:
    """One user with one password."""

    def __init__(self, name: str, password: str) -> None:
        self.name = name
        self.password = password

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self.decoy(user, mechanism) if user == self.name else None

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        salted = salted_password(mechanism, self.password.encode(), SALT, 4096)
        return credential(mechanism, salted, SALT, 4096)


def challenged(client: ScramClient, server: ScramExchange) -> bytes:
    step = responded(server, client.first())
    assert isinstance(step, Challenge)
    return client.final(step.data)


@pytest.mark.parametrize("mechanism", MECHANISM_NAMES)
@given(user=names, password=names)
@settings(max_examples=5, deadline=None)
def test_the_right_password_is_accepted(mechanism: str, user: str, password: str) -> None:
    server = ScramExchange(MECHANISM_NAMES[mechanism], Users(user, password), SERVER_NONCE)
    client = ScramClient(mechanism, user, password, NONCE)
    accepted = responded(server, challenged(client, server))
    assert isinstance(accepted, Accepted)
    assert accepted.user == user
    client.verify(accepted.data)


def test_a_wrong_password_is_rejected() -> None:
    server = ScramExchange(MECHANISM_NAMES["SCRAM-SHA-256"], Users("ann", "right"), SERVER_NONCE)
    assert isinstance(
        responded(server, challenged(ScramClient("SCRAM-SHA-256", "ann", "wrong", NONCE), server)), Rejected
    )


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient("SCRAM-SHA-256", "ann", "secret", NONCE)
    with pytest.raises(ProtocolError, match="does not know the password"):
        client.verify(b"v=")
    client.final(b"r=%s-more,s=%s,i=4096" % (NONCE.encode(), base64.b64encode(SALT)))
    with pytest.raises(ProtocolError, match="does not know the password"):
        client.verify(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=other,s=YQ==,i=4096", "does not continue our nonce"),
        (b"r=ournonce,s=YQ==,i=4096", "does not continue our nonce"),
        (b"r=ournonce1,s=YQ==,i=4095", "4095 rounds"),
        (b"r=ournonce1,s=YQ==,i=%d" % (ITERATIONS_MAX + 1), "1000001 rounds"),
        (b"r=ournonce1,s=YQ==,i=99999999999999999999", "rounds"),
        (b"r=ournonce1,s=YQ==,i=many", "rounds"),
        (b"r=ournonce1,s=a,i=4096", "no salt"),
        (b"r=ournonce1,s=YQ==", "lacks"),
        (b"", "lacks"),
        (b"\xff", "no text"),
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        ScramClient("SCRAM-SHA-512", "ann", "secret", NONCE).final(challenge)


@given(st.binary(max_size=60))
def test_nothing_but_a_protocol_error_comes_of_garbage(challenge: bytes) -> None:
    with pytest.raises(ProtocolError):
        ScramClient("SCRAM-SHA-512", "ann", "secret", NONCE).final(challenge)
