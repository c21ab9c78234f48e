"""The requests that a listener with SASL accepts on one connection. No sockets, time moved by hand."""

import logging
from typing import Any, Final

import pytest
from tests.support.scram_client import ScramClient
from tests.support.sessions import session_of

from hutong.broker.authentication.exchange import Authentication, AuthenticationLimits, AuthenticationWaits, TokenChecks
from hutong.broker.dispatch.request_errors import RequestErrors
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.channel import HELD
from hutong.reactor.connections.connection import Connection, Peer, Response
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.frames.framing import length_prefixed
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.threads.offload import InlineOffload
from hutong.security.principals import ANONYMOUS
from hutong.security.sasl.figures import SaslFigures
from hutong.security.sasl.guesses import DELAY_MS_MIN, FREE_FAILURES, Guesses
from hutong.security.sasl.machine import Rules
from hutong.security.sasl.oauth import OauthExchange
from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.scram_credentials import SHA_256, Credential, Mechanism, credential, decoy, salted_password
from hutong.security.sasl.steps import SaslFault
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

LISTENER: Final = Listener("SASL_SSL", SecurityProtocol.SASL_SSL, "127.0.0.1", 9093)
KEPT: Final = credential(SHA_256, salted_password(SHA_256, b"secret", b"salt", 4096), b"salt", 4096)
REACHED: Final[list[Buffer]] = [b"\0\0\0\7reached"]
PLAIN_MESSAGE: Final = b"\0alice\0secret"


class Users:
    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return KEPT if user == "alice" else None

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        return decoy(mechanism, b"secret", user, 4096, 4)


class Behind:
    """In the place of the dispatch: notes what reaches it."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.requests_total = {17: 0, 36: 0}
        self.errors = RequestErrors()

    def connection_opened(self, peer: Peer) -> None:
        peer.session = session_of(peer.id, peer.address)

    def connection_closed(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        self.keys.append(int.from_bytes(bytes(frame[:2]), "big"))
        return REACHED


class RepeatedRequests:
    """A short way that leaves everything to the long one."""

    def take_requests(self, data: Buffer, requests_max: int) -> None:
        return None


class Offload(InlineOffload):
    """Inline, or later when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Any] | None = None

    def submit(self, work: Any, then: Any) -> None:
        if self.waiting is None:
            super().submit(work, then)
        else:
            self.waiting.append((work, then))

    def go_on(self) -> None:
        waiting, self.waiting = self.waiting or [], None
        for work, then in waiting:
            then(work())


class World:
    """One connection to a listener with SASL, on the reactor's engine."""

    def __init__(
        self,
        session_ms: int = 0,
        checks_max: int = 10,
        guesses: Guesses | None = None,
        tokens: TokenChecks | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.waits = AuthenticationWaits(
            deadlines=WaitTable("deadlines", self.wheel, 10),
            delays=WaitTable("delays", self.wheel, 10),
            sessions=WaitTable("sessions", self.wheel, 10),
            checks=WaitTable("checks", self.wheel, checks_max),
            turns=WaitTable("turns", self.wheel, 10),
        )
        self.figures, self.behind, self.workers = SaslFigures(), Behind(), Offload()
        self.rules = Rules(
            {"PLAIN": PlainExchange, "SCRAM-SHA-256": lambda: ScramExchange(SHA_256, Users(), "ours")}, session_ms
        )
        if tokens is not None:
            self.rules = Rules({"OAUTHBEARER": OauthExchange}, session_ms)
        self.handler = Authentication(
            self.behind,  # type: ignore[arg-type]
            self.rules,
            lambda user: lambda password: (user, password) == ("alice", b"secret"),
            workers=self.workers,
            waits=self.waits,
            limits=AuthenticationLimits(frame_bytes_max=1000),
            clock=self.clock,
            figures=self.figures,
            guesses=Guesses(delay_ms_max=2_000) if guesses is None else guesses,
            tokens=tokens,
        )
        limits = ReactorLimits()
        framing = length_prefixed()(limits.frame_bytes_max)
        self.peer = Peer(1, "10.0.0.1", 1234, framing)
        self.engine = Connection(self.peer, framing, self.handler, limits, ReactorFigures(), 0, lambda: None)
        self.handler.connection_opened(self.peer)

    def send(self, request: Any, version: int) -> None:
        self.send_bytes(b"".join(encode_request_frame(request, version, 7, "test")))

    def send_bytes(self, data: bytes) -> None:
        self.engine.receive_data(data, self.clock.monotonic_ms())

    def sent(self) -> bytes:
        self.engine.resume_work(self.clock.monotonic_ms())
        return b"".join(self.engine.data_to_send(self.clock.monotonic_ms()))

    def ask(self, request: Any, version: int) -> Any:
        """The decoded answer, or None where there is none yet."""
        self.send(request, version)
        return self.answer(message_info(type(request)).api_key, version)

    def answer(self, key: int, version: int) -> Any:
        frame = self.sent()[4:]
        return (
            codecs.decode_response(key, version, frame, decode_response_header(frame, key, version)[1])
            if frame
            else None
        )

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism), version)

    def authenticate(self, message: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(message), version)

    def let_in(self) -> None:
        assert self.handshake().error_code == 0
        assert self.authenticate(PLAIN_MESSAGE).error_code == 0

    def reaches(self) -> bool:
        """True if an ordinary request is accepted."""
        self.behind.keys.clear()
        self.send(MetadataRequest([]), 9)
        return self.sent() == b"".join(REACHED) and self.behind.keys == [3]

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    @property
    def is_closed(self) -> bool:
        return self.engine.is_closed


def test_plain_lets_in_who_knows_the_password() -> None:
    world = World()
    assert world.peer.session.principal is ANONYMOUS
    world.let_in()
    assert str(world.peer.session.principal) == "User:alice"
    assert world.reaches()
    assert world.figures.succeeded_total == {"PLAIN": 1}
    assert all(len(table) == 0 for table in (world.waits.deadlines, world.waits.delays, world.waits.sessions))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_scram_by_requests(version: int) -> None:
    world, client = World(), ScramClient("sha256", "alice", b"secret")
    assert world.handshake("SCRAM-SHA-256").mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    challenge = world.authenticate(client.first(), version)
    assert not world.behind.keys
    last = world.authenticate(client.final(challenge.auth_bytes), version)
    assert (last.error_code, client.is_from_server(last.auth_bytes)) == (0, True)
    assert world.reaches()


def test_scram_by_bare_frames() -> None:
    """After version 0 of the handshake messages are frames by themselves."""
    world, client = World(), ScramClient("sha256", "alice", b"secret")
    assert world.handshake("SCRAM-SHA-256", 0).error_code == 0
    message = client.first()
    world.send_bytes(len(message).to_bytes(4, "big") + message)
    message = client.final(world.sent()[4:])
    world.send_bytes(len(message).to_bytes(4, "big") + message)
    assert client.is_from_server(world.sent()[4:])
    assert world.reaches()


def test_a_bare_frame_that_fails_is_closed_without_an_answer() -> None:
    world = World()
    world.handshake("PLAIN", 0)
    world.send_bytes(b"\0\0\0\x0d\0alice\0secre_")
    assert world.sent() == b""
    world.pass_ms(200)
    assert (world.sent(), world.is_closed) == (b"", True)


def test_a_failure_is_answered_and_closed_after_a_while_and_nothing_is_read_meanwhile() -> None:
    world = World()
    world.handshake()
    assert world.authenticate(b"\0alice\0wrong") is None
    world.send(MetadataRequest([]), 9)
    assert world.sent() == b""
    assert not world.engine.wants_to_read(world.clock.monotonic_ms())
    world.pass_ms(50)
    assert not world.is_closed
    world.pass_ms(100)
    answer = world.answer(36, 2)
    assert answer.error_code == 58
    assert "wrong" in answer.error_message
    assert not world.is_closed, "the client has had no chance to read"
    world.pass_ms(100)
    assert world.is_closed
    assert not world.behind.keys
    assert world.figures.failed_total[SaslFault.CREDENTIALS] == 1


def test_an_unknown_mechanism_is_answered_with_what_there_is() -> None:
    world = World()
    assert world.handshake("GSSAPI") is None
    world.pass_ms(200)
    answer = world.answer(17, 1)
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
    world.pass_ms(100)
    assert world.is_closed


def test_api_versions_is_answered_to_anybody() -> None:
    world = World()
    world.send(ApiVersionsRequest("test", "1"), 3)
    assert world.sent() == b"".join(REACHED)
    world.let_in()
    assert world.reaches()


@pytest.mark.parametrize("after_handshake", [False, True])
def test_anything_else_is_closed_without_an_answer(after_handshake: bool) -> None:
    world = World()
    if after_handshake:
        world.handshake()
    assert not world.reaches()
    world.pass_ms(200)
    assert (world.sent(), world.is_closed, world.behind.keys) == (b"", True, [])
    assert world.figures.failed_total[SaslFault.STATE] == 1


def test_authenticating_without_a_handshake() -> None:
    world = World()
    assert world.authenticate(PLAIN_MESSAGE) is None
    world.pass_ms(200)
    assert world.answer(36, 2).error_code == 34
    world.pass_ms(100)
    assert world.is_closed


@pytest.mark.parametrize(
    "data", [b"\0\0\0\2ab", b"\0\0\0\x0a\0\x11\0\x09\0\0\0\0\xff\xff", b"\0\0\0\x0a\xff\xff\0\0\0\0\0\0\xff\xff"]
)
def test_bytes_that_are_no_request(data: bytes) -> None:
    world = World()
    world.send_bytes(data)
    world.pass_ms(200)
    assert (world.sent(), world.is_closed) == (b"", True)


def test_frames_are_small_until_somebody_is_authenticated() -> None:
    world = World()
    before = ReactorLimits().frame_bytes_max
    assert world.peer.frame_limit == 1000
    world.let_in()
    assert world.peer.frame_limit == before
    stranger = World()
    stranger.send_bytes((1001).to_bytes(4, "big"))
    assert stranger.is_closed


def test_who_takes_too_long_is_closed() -> None:
    world = World()
    world.handshake()
    world.pass_ms(9_900)
    assert not world.is_closed
    world.pass_ms(200)
    assert world.is_closed
    assert world.figures.failed_total[SaslFault.DEADLINE] == 1
    timely = World()
    timely.let_in()
    timely.pass_ms(60_000)
    assert timely.reaches()


def test_what_comes_while_a_password_is_checked_waits() -> None:
    world = World()
    world.handshake()
    world.workers.waiting = []
    assert world.authenticate(PLAIN_MESSAGE) is None
    world.send(MetadataRequest([]), 9)
    assert (world.sent(), world.behind.keys) == (b"", [])
    world.workers.go_on()
    assert world.sent().endswith(b"".join(REACHED))
    assert world.behind.keys == [3]


def test_a_connection_that_is_gone_before_its_password_is_checked() -> None:
    world = World()
    world.handshake()
    world.workers.waiting = []
    world.authenticate(PLAIN_MESSAGE)
    world.engine.connection_lost()
    world.peer.owner.end()
    world.workers.go_on()
    assert world.figures.succeeded_total == {}
    assert not world.peer.session.login.is_open


def test_more_passwords_than_may_wait_are_refused() -> None:
    world = World(checks_max=1)
    world.waits.checks.park("another", lambda _: None)
    world.handshake()
    world.authenticate(PLAIN_MESSAGE)
    world.pass_ms(200)
    assert (world.answer(36, 2).error_code, world.figures.failed_total[SaslFault.BUSY]) == (58, 1)


def test_a_session_is_told_its_length_and_ends() -> None:
    world = World(session_ms=5_000)
    world.handshake()
    assert world.authenticate(PLAIN_MESSAGE).session_lifetime_ms == 5_000
    world.peer.express = RepeatedRequests()
    world.pass_ms(4_900)
    assert world.reaches()
    world.pass_ms(200)
    assert world.peer.express is None
    assert not world.is_closed
    assert not world.reaches()
    assert world.is_closed
    assert world.figures.expired_total == 1


def test_a_session_goes_on_by_authenticating_again() -> None:
    world = World(session_ms=5_000)
    world.let_in()
    world.pass_ms(4_500)
    world.peer.express = RepeatedRequests()
    assert world.handshake().error_code == 0
    assert world.peer.express is None
    assert world.authenticate(PLAIN_MESSAGE).session_lifetime_ms == 5_000
    world.pass_ms(4_500)
    assert world.reaches()
    assert world.figures.again_total == {"PLAIN": 1}
    world.pass_ms(1_000)
    assert world.handshake().error_code == 0  # late, but Kafka's clients come only when they have something to ask
    assert world.authenticate(PLAIN_MESSAGE).error_code == 0
    assert world.reaches()


def test_authenticating_again_may_wait_behind_a_long_poll() -> None:
    world = World(session_ms=600_000)
    world.let_in()
    world.handshake()
    world.pass_ms(60_000)
    assert world.authenticate(PLAIN_MESSAGE).error_code == 0
    assert world.reaches()


def test_nothing_is_answered_in_the_middle_of_authenticating_again() -> None:
    world = World(session_ms=5_000)
    world.let_in()
    world.handshake()
    assert not world.reaches()
    world.pass_ms(200)
    assert world.is_closed


def test_failing_to_authenticate_again_ends_the_connection() -> None:
    world = World(session_ms=5_000)
    world.let_in()
    world.handshake()
    world.authenticate(b"\0alice\0wrong")
    assert not world.reaches()
    world.pass_ms(200)
    world.pass_ms(100)
    assert (world.is_closed, world.behind.keys) == (True, [])


def test_without_sessions_that_end_a_second_handshake_is_an_ordinary_request() -> None:
    world = World()
    world.let_in()
    world.behind.keys.clear()
    world.send(SaslHandshakeRequest("PLAIN"), 1)
    assert world.behind.keys == [17]
    world.sent()
    assert world.reaches()


def test_the_log_says_that_it_failed_but_nothing_that_was_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hutong.kafka"):
        for _ in range(3):
            world = World()
            world.handshake()
            world.authenticate(b"\0alice\0my-password")
    assert "10.0.0.1" in caplog.text
    assert "alice" not in caplog.text
    assert "my-password" not in caplog.text


def test_held_requests_are_not_given_to_the_dispatch() -> None:
    world = World()
    world.handshake()
    world.authenticate(b"\0alice\0wrong")
    frame = b"".join(encode_request_frame(MetadataRequest([]), 9, 7, "test"))[4:]
    assert world.handler.request_received(frame, world.peer) is HELD


def guess(world: World, message: bytes = b"\0alice\0wrong") -> None:
    """One connection's wrong password, up to its end."""
    world.handshake()
    world.send(SaslAuthenticateRequest(message), 2)


def test_a_user_who_failed_often_waits_before_the_next_check() -> None:
    guesses = Guesses(delay_ms_max=2_000)
    for _ in range(FREE_FAILURES):
        guess(World(guesses=guesses))
    world = World(guesses=guesses)
    world.handshake()
    assert world.authenticate(PLAIN_MESSAGE) is None
    assert (len(world.waits.turns), world.figures.delayed_total) == (1, 1)
    world.pass_ms(DELAY_MS_MIN)
    assert world.answer(36, 2).error_code == 0
    assert world.reaches()


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_proof_waits_as_a_password_does_and_known_users_as_unknown_ones(user: str) -> None:
    guesses = Guesses(delay_ms_max=2_000)
    for _ in range(FREE_FAILURES):
        guess(World(guesses=guesses), f"\0{user}\0wrong".encode())
    world, client = World(guesses=guesses), ScramClient("sha256", user, b"wrong")
    world.handshake("SCRAM-SHA-256")
    challenge = world.authenticate(client.first())
    assert world.authenticate(client.final(challenge.auth_bytes)) is None
    world.pass_ms(DELAY_MS_MIN - 1)
    assert world.figures.failed_total[SaslFault.CREDENTIALS] == 0
    world.pass_ms(1)
    assert world.figures.failed_total[SaslFault.CREDENTIALS] == 1
    world.pass_ms(100)
    assert world.answer(36, 2).error_code == 58


def test_who_leaves_while_it_waits_for_its_turn_is_not_checked() -> None:
    guesses = Guesses(delay_ms_max=2_000)
    for _ in range(FREE_FAILURES):
        guess(World(guesses=guesses))
    world = World(guesses=guesses)
    guess(world)
    world.peer.owner.end()
    world.pass_ms(DELAY_MS_MIN)
    assert len(world.waits.turns) == 0
    assert world.figures.failed_total[SaslFault.CREDENTIALS] == 0


def test_a_session_s_length_may_be_changed_while_the_node_runs() -> None:
    world = World()
    world.rules.session_ms = 60_000
    world.handshake()
    assert world.authenticate(PLAIN_MESSAGE).session_lifetime_ms == 60_000
    world.rules.session_ms = 0
    world.pass_ms(30_000)
    assert world.handshake().error_code == 0, "it was told to come again"
    assert world.authenticate(PLAIN_MESSAGE).session_lifetime_ms == 0
    world.pass_ms(90_000)
    assert world.reaches()
