"""Targets for what clients say before anybody knows who they are: SASL messages of every mechanism."""

from collections.abc import Iterator
from typing import Final

from tests.fuzz.target import Target

from hutong.security.sasl import scram_credentials as kept
from hutong.security.sasl.machine import Login, Phase, Rules
from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.steps import CheckPassword

SALT: Final = b"salt-of-alice"
ITERATIONS: Final = 4_096
NONCE: Final = "server-nonce"


class Users:
    """One user, and decoys for all others."""

    def credential(self, user: str, mechanism: kept.Mechanism) -> kept.Credential | None:
        return _ALICE[mechanism.name] if user == "alice" else None

    def decoy(self, user: str, mechanism: kept.Mechanism) -> kept.Credential:
        return kept.decoy(mechanism, b"secret", user, ITERATIONS, 16)


_ALICE: Final = {
    mechanism.name: kept.credential(
        mechanism, kept.salted_password(mechanism, b"wonderland", SALT, ITERATIONS), SALT, ITERATIONS
    )
    for mechanism in kept.MECHANISMS.values()
}
RULES: Final = Rules(
    {
        "PLAIN": PlainExchange,
        **{
            mechanism.name: lambda mechanism=mechanism: ScramExchange(mechanism, Users(), NONCE)  # type: ignore[misc]
            for mechanism in kept.MECHANISMS.values()
        },
    },
    60_000,
)
MECHANISMS: Final = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", ""]


def log_in(data: bytes) -> object:
    """One byte for the mechanism, then a message for each zero-separated pair of bytes FF 00; nobody may get in."""
    login = Login(RULES)
    login.begin(MECHANISMS[data[0] % len(MECHANISMS)] if data else "", is_raw=False, now_ms=0)
    for message in data[1:].split(b"\xff\x00"):
        step = login.respond(message)
        if isinstance(step, CheckPassword):
            login.checked(step.user, is_right=False)
        login.check_invariants()
    assert login.phase is not Phase.AUTHENTICATED, "somebody got in without a password"
    return login.phase


def exchanges() -> Iterator[bytes]:
    yield b"\0" + b"\0alice\0wonderland"
    yield b"\0" + b"alice\0alice\0wonderland"
    for number in (1, 2):
        for user in ("alice", "bob=2C=3D", "*"):
            first = f"n,,n={user},r=client-nonce".encode()
            final = f"c=biws,r=client-nonce{NONCE},p=".encode()
            yield bytes([number]) + first + b"\xff\x00" + final + b"dGhpcyBpcyBub3QgdGhlIHByb29m"
            yield bytes([number]) + b"n,a=x,n=alice,r=1,ext=2" + b"\xff\x00" + final
            yield bytes([number]) + b"y,,n=alice,r=1" + b"\xff\x00" + b"p=tls-unique,,n=a,r=b"


TARGETS = [Target("sasl", log_in, exchanges, ())]
