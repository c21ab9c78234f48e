"""Targets for what is said before anybody knows who says it: SASL, certificates, TLS; and rules about names."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import trustme
from tests.fuzz.corpus import kept as kept_inputs
from tests.fuzz.target import MEBIBYTE, Target
from tests.support.identity_provider import SigningKey, claims_of, key_set
from tests.support.revocation import revocation_list
from tests.unit.broker.authentication.test_authentication import World

from hutong.foundation.errors import ProtocolError, UsageError
from hutong.reactor.tls.session import HandshakeFailed, TlsSession
from hutong.security.certificate_principals import CertificatePrincipals
from hutong.security.certificate_times import expires_at_ms
from hutong.security.distinguished_names import subject_of
from hutong.security.oauth.key_sets import parse_key_set
from hutong.security.oauth.outcomes import TokenOwner, TokenStatus
from hutong.security.oauth.tokens import TokenRules, check_token
from hutong.security.principal_mapping import PrincipalMapping
from hutong.security.revocation_lists import next_update_ms, revocation_lists_in
from hutong.security.sasl import scram_credentials as kept
from hutong.security.sasl.machine import Login, Rules, SaslPhase
from hutong.security.sasl.oauth import OauthExchange
from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.steps import CheckPassword, CheckProof, CheckToken
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from hutong.wire.kafka.headers import encode_request_frame

API_VERSIONS: Final = 18
FRAMES_BYTES_MAX: Final = 8_192

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
        "OAUTHBEARER": OauthExchange,
        **{
            mechanism.name: lambda mechanism=mechanism: ScramExchange(mechanism, Users(), NONCE)  # type: ignore[misc]
            for mechanism in kept.MECHANISMS.values()
        },
    },
    60_000,
)
MECHANISMS: Final = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "", "OAUTHBEARER"]


def log_in(data: bytes) -> object:
    """One byte for the mechanism, then a message for each zero-separated pair of bytes FF 00; nobody may get in."""
    login = Login(RULES)
    login.begin_exchange(MECHANISMS[data[0] % len(MECHANISMS)] if data else "", is_raw=False, now_ms=0)
    for message in data[1:].split(b"\xff\x00"):
        step = login.respond(message)
        if isinstance(step, CheckPassword):
            login.checked(step.user, is_right=False)
        elif isinstance(step, CheckProof):
            login.proved(step)
        elif isinstance(step, CheckToken):
            login.token_checked(step.outcomes.refused(TokenStatus.INVALID, "fuzz"))
        login.check_invariants()
    assert login.phase is not SaslPhase.AUTHENTICATED, "somebody got in without a password"
    return login.phase


def exchanges() -> Iterator[bytes]:
    yield b"\0" + b"\0alice\0wonderland"
    yield b"\0" + b"alice\0alice\0wonderland"
    yield b"\5" + b"n,a=alice,\1auth=Bearer a.b.c\1\1" + b"\xff\x00" + b"\1"
    for number in (1, 2):
        for user in ("alice", "bob=2C=3D", "*"):
            first = f"n,,n={user},r=client-nonce".encode()
            final = f"c=biws,r=client-nonce{NONCE},p=".encode()
            yield bytes([number]) + first + b"\xff\x00" + final + b"dGhpcyBpcyBub3QgdGhlIHByb29m"
            yield bytes([number]) + b"n,a=x,n=alice,r=1,ext=2" + b"\xff\x00" + final
            yield bytes([number]) + b"y,,n=alice,r=1" + b"\xff\x00" + b"p=tls-unique,,n=a,r=b"


def knock(data: bytes) -> object:
    """A connection to a listener with SASL, on the reactor's own engine: nothing of it reaches the broker."""
    world = World()
    world.send_bytes(data[:FRAMES_BYTES_MAX])
    world.sent()
    world.pass_ms(20_000)
    world.sent()
    assert set(world.behind.keys) <= {API_VERSIONS}, f"requests {world.behind.keys} reached the broker"
    return world.behind.keys


def knocks() -> Iterator[bytes]:
    def framed(message: Any, version: int) -> bytes:
        return b"".join(encode_request_frame(message, version, 7, "fuzz"))

    hello = framed(ApiVersionsRequest("fuzz", "1"), 3)
    messages = [exchange[1:].split(b"\xff\x00") for exchange in exchanges()]
    for version in (0, 1, 2):
        for mechanism, parts in zip(["PLAIN", "PLAIN", "OAUTHBEARER", *["SCRAM-SHA-256"] * 9], messages, strict=False):
            yield (
                hello
                + framed(SaslHandshakeRequest(mechanism), 1)
                + b"".join(framed(SaslAuthenticateRequest(part), version) for part in parts)
                + framed(MetadataRequest([]), 9)
            )
    for parts in messages[1:5]:
        raw = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        yield framed(SaslHandshakeRequest("SCRAM-SHA-256"), 0) + raw + framed(MetadataRequest([]), 9)


_KEY: Final = SigningKey("first", "ES256")
_NOW_S: Final = 1_700_000_000
_GOOD: Final = _KEY.sign(claims_of("alice", _NOW_S)).encode()


def read_token(data: bytes) -> object:
    """A token whose bytes differ from those that the provider signed belongs to nobody."""
    keys = parse_key_set(key_set(_KEY))
    found = check_token(data.decode(errors="replace"), keys, TokenRules(), _NOW_S * 1000)
    assert data == _GOOD or not isinstance(found, TokenOwner), "a forged token"
    return found


def read_certificate(data: bytes) -> object:
    """As a listener reads the certificate that a client has shown."""
    for read in (subject_of, expires_at_ms, CertificatePrincipals("RULE:^CN=(.*?),.*$/$1/L,DEFAULT").principal_of):
        try:
            read(data)
        except ProtocolError:
            continue
    return subject_of(data)


def read_revocation_lists(data: bytes) -> object:
    """A file of them, and the same bytes as one that was unpacked."""
    with suppress(ProtocolError):
        next_update_ms(data)
    return [next_update_ms(each) for each in revocation_lists_in(data)]


def map_names(data: bytes) -> object:
    """Rules, a line end, and a name that they are for."""
    rules, _, subject = data.decode(errors="replace").partition("\n")
    return PrincipalMapping(rules).name_of(subject)


def shake_hands(data: bytes) -> object:
    """Feed the bytes that come before a handshake is done, in two reads."""
    session = TlsSession(_CONTEXT)
    cut = len(data) // 2
    for part in (data[:cut], data[cut:]):
        session.receive_data(part)
        if session.shake_hands():
            session.read_into(memoryview(bytearray(4_096)))
    session.say_goodbye()
    return session.data_to_send()


_CONTEXT: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def client_hellos() -> Iterator[bytes]:
    client = ssl.create_default_context()
    client.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client.wrap_bio(incoming, outgoing)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    yield b""
    yield outgoing.read()
    yield b"GET / HTTP/1.1\r\n\r\n"


RULES_SEEDS: Final = [
    b"DEFAULT\nCN=a",
    b"RULE:^CN=(.*?),OU=(.*?)$/$1@$2/U,DEFAULT\nCN=ann,OU=ops",
    b"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L\nCN=Ann",
]


def revocation_lists() -> Iterator[bytes]:
    pem = revocation_list(trustme.CA())
    yield pem
    yield from revocation_lists_in(pem)


TARGETS = [
    Target("sasl", log_in, exchanges, ()),
    Target("sasl-listener", knock, knocks, ()),
    Target("access-token", read_token, lambda: [_GOOD], (), slowness=4),
    Target("key-set", parse_key_set, lambda: [key_set(_KEY), key_set(SigningKey("rsa"), _KEY)], (ProtocolError,)),
    Target("certificate", read_certificate, lambda: kept_inputs("certificate"), (ProtocolError,)),
    Target("revocation-lists", read_revocation_lists, revocation_lists, (ProtocolError,)),
    Target("principal-mapping", map_names, lambda: RULES_SEEDS, (UsageError,), memory_base=8 * MEBIBYTE),
    Target("tls-handshake", shake_hands, client_hellos, (HandshakeFailed, ssl.SSLError)),
]
