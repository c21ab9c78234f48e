"""Authentication before the dispatch of a listener with SASL: only authenticated clients get past it (KIP-43, KIP-152).

Strategy: while a connection is not authenticated, ApiVersions, SaslHandshake and SaslAuthenticate are all that is
answered, frames are small and a deadline runs. The machine decides what follows from each message (`security/sasl`).
After a failure the connection is answered and closed with a delay, and is not read meanwhile (KIP-306). Once a session
has expired, its requests count no more, fast path included: the next one closes the connection, unless the client
authenticates again (KIP-368).

An authenticated connection costs the test of a flag for each request, and a plain listener nothing at all.

Knows nothing of sockets, nor how passwords are kept: it decides nothing that the machine could.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

from hutong.broker.authentication import sasl_frames
from hutong.broker.authentication.sasl_frames import AUTHENTICATE, HANDSHAKE
from hutong.broker.handling.log_limit import LogLimit
from hutong.foundation.errors import Expired, LimitExceeded, ProtocolError
from hutong.foundation.waiting.pending import Continuation
from hutong.reactor.connections.channel import HELD
from hutong.reactor.connections.connection import PendingResponse
from hutong.security.principals import USER, Principal
from hutong.security.sasl.machine import Login, Rules, SaslPhase
from hutong.security.sasl.steps import Accepted, Challenge, CheckPassword, CheckProof, CheckToken, Rejected, SaslFault
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import RequestHeader, decode_request_header

if TYPE_CHECKING:
    from hutong.broker.dispatch.dispatcher import Dispatch
    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.clock import Clock
    from hutong.foundation.errors import HutongError
    from hutong.foundation.waiting.table import Owner, WaitTable
    from hutong.reactor.connections.connection import Peer, Response
    from hutong.runtime.threads.offload import Offload
    from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal
    from hutong.security.sasl.figures import SaslFigures
    from hutong.security.sasl.guesses import Guesses
    from hutong.wire.buffer import Buffer

API_VERSIONS: Final = 18
LINGER_MS: Final = 50  # between an error and the end: some clients drop what they read together with the end
_HANDSHAKE_BYTES: Final = HANDSHAKE.to_bytes(2, "big")
_KEY_BYTES: Final = 2
_BUSY: Final = "too many passwords are being checked"
_TOKENS_BUSY: Final = "too many tokens wait for their keys"
_log = logging.getLogger("hutong.kafka")

Encode = Callable[[Accepted | Challenge | Rejected], "list[Buffer] | None"]


@dataclass(frozen=True, slots=True)
class AuthenticationLimits:
    """Bounds of connections that are not authenticated."""

    frame_bytes_max: int = 512 * 1024  # sasl.server.max.receive.size
    deadline_ms: int = 10_000  # from the opening of a connection
    failure_delay_ms: int = 100  # connection.failed.authentication.delay.ms


@dataclass(frozen=True, slots=True)
class AuthenticationWaits:
    """Wait tables of authentication; keys are peers. The listeners of a node share them."""

    deadlines: WaitTable[None]
    delays: WaitTable[None]
    sessions: WaitTable[None]
    checks: WaitTable[bool]
    turns: WaitTable[None]  # checks slowed by failures before


class TokenChecks(Protocol):
    """A provider's access tokens."""

    def check(self, token: str, *, may_wait: bool) -> TokenOwner | TokenRefusal | None:
        """Check a token, quickly. None means that the keys are being fetched: check again once they are."""
        ...

    def wait(self, then: Continuation[None], owner: Owner) -> None:
        """Call `then` once the keys have been fetched, or that has failed. Raises LimitExceeded."""
        ...


@dataclass(slots=True)
class Check:
    """A password, a proof or a token is being checked: for which connection, since when, with which promised answer."""

    peer: Peer
    login: Login
    encode: Encode
    since_ms: int
    promised: PendingResponse | None = None


class Authentication:
    """The reactor's handler for one listener with SASL.

    `password_check` returns a user's function that checks a password; it runs on `workers`.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        rules: Rules,
        password_check: Callable[[str], Callable[[bytes], bool]],
        *,
        workers: Offload,
        waits: AuthenticationWaits,
        limits: AuthenticationLimits,
        clock: Clock,
        figures: SaslFigures,
        guesses: Guesses,
        tokens: TokenChecks | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._rules = rules
        self._password_check = password_check
        self._workers = workers
        self._waits = waits
        self._limits = limits
        self._clock = clock
        self._figures = figures
        self._guesses = guesses
        self._tokens = tokens
        self._log_limit = LogLimit()
        self._frame_bytes_max = 0  # of the authenticated: what the acceptor gives each connection

    # What the reactor calls.

    def connection_opened(self, peer: Peer) -> None:
        self._dispatch.connection_opened(peer)
        _session(peer).login = Login(self._rules)
        self._frame_bytes_max = peer.frame_limit
        self._begin_deadline(peer)

    def connection_closed(self, peer: Peer) -> None:
        """Forget a connection. Its waits have ended with its owner."""
        self._dispatch.connection_closed(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        login = _session(peer).login
        # The fast path of an authenticated connection: two comparisons for each request.
        if login is None or (login.is_open and frame[:_KEY_BYTES] != _HANDSHAKE_BYTES):
            return self._dispatch.request_received(frame, peer)
        try:
            return self._received(frame, peer, login)
        # A stranger's bytes are refused like a wrong password: with the delay, and in the figures of failures.
        except ProtocolError:
            return self._refuse(peer, login, login.fail(SaslFault.MALFORMED, "bytes that are no request"), None)

    # By phase.

    def _received(self, frame: Buffer, peer: Peer, login: Login) -> Response:
        phase = login.phase
        # Held unread: the answer that is due comes first, and a failed client gets no further one.
        if phase in (SaslPhase.CHECKING, SaslPhase.FAILED):
            return HELD
        # SaslHandshake version 0: bare SASL messages without a request header.
        if phase is SaslPhase.EXCHANGE and login.is_raw:
            return self._step(bytes(frame), peer, login, sasl_frames.raw)
        header, body_at = decode_request_header(frame)
        if phase is SaslPhase.EXCHANGE:
            return self._continue(header, frame, body_at, peer, login)
        if header.api_key == HANDSHAKE:
            return self._begin(header, frame, body_at, peer, login)
        # Not open any more, so its session has expired: Kafka closes as well (KIP-368).
        if phase is SaslPhase.AUTHENTICATED:
            self._figures.expired_total += 1
            peer.close()
            return None
        # Allowed before authentication, as clients need it to choose a SaslHandshake version (KIP-35).
        if header.api_key == API_VERSIONS:
            return self._dispatch.request_received(frame, peer)
        return self._refuse_misplaced(header, peer, login)

    def _begin(self, header: RequestHeader, frame: Buffer, body_at: int, peer: Peer, login: Login) -> Response:
        """SaslHandshake: after version 0 bare frames follow, after version 1 SaslAuthenticate."""
        now_ms = self._clock.monotonic_ms()
        is_again = login.phase is SaslPhase.AUTHENTICATED
        # KIP-368 lets clients authenticate again. Too often, or without expiry, the dispatcher answers
        # ILLEGAL_SASL_STATE.
        if is_again and not login.may_begin_again(now_ms):
            return self._dispatch.request_received(frame, peer)
        request = sasl_frames.decode(header, frame, body_at)
        self._dispatch.requests_total[HANDSHAKE] += 1
        rejected = login.begin_exchange(request.mechanism, is_raw=header.api_version == 0, now_ms=now_ms)
        code = ErrorCode.NONE if rejected is None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = sasl_frames.handshake(header, self._rules.exchanges, code)
        # The answer lists the mechanisms that are offered, so that the user finds the mistake (KIP-43).
        if rejected is not None:
            self._dispatch.errors.note(HANDSHAKE, {code})
            return self._refuse(peer, login, rejected, answer)
        if is_again:  # without a deadline: this answer waits behind others, such as a long poll's
            peer.express = None
        return answer

    def _continue(self, header: RequestHeader, frame: Buffer, body_at: int, peer: Peer, login: Login) -> Response:
        """SaslAuthenticate: one message of the mechanism."""
        # The exchange must end before anything else: Kafka closes such connections, too.
        if header.api_key != AUTHENTICATE:
            return self._refuse_misplaced(header, peer, login)
        request = sasl_frames.decode(header, frame, body_at)
        self._dispatch.requests_total[AUTHENTICATE] += 1

        def encode(step: Accepted | Challenge | Rejected) -> list[Buffer]:
            return sasl_frames.authenticate(header, login.session_ms, step)

        return self._step(bytes(request.auth_bytes), peer, login, encode)

    def _step(self, message: bytes, peer: Peer, login: Login, encode: Encode) -> Response:
        step = login.respond(message)
        # The machine decides nothing that takes time: a password's hash is a worker's job of milliseconds.
        if isinstance(step, CheckPassword | CheckProof):
            return self._check(Check(peer, login, encode, self._clock.monotonic_ms()), step)
        if isinstance(step, CheckToken):
            return self._check_token(Check(peer, login, encode, 0), step, may_wait=True)
        return self._settle(step, peer, login, encode, None)

    # A token that is checked. Nobody can guess one, so failures slow nobody down.

    def _check_token(self, check: Check, asked: CheckToken, *, may_wait: bool) -> Response:
        """Check a token now, or once its key has been fetched."""
        from hutong.security.oauth.outcomes import TokenOwner  # late: few nodes take access tokens

        assert self._tokens is not None, "the mechanism is offered only where there are keys"
        found = self._tokens.check(asked.token, may_wait=may_wait)
        if found is None:
            return self._check_token_later(check, asked)
        step: Accepted | Challenge | Rejected
        if isinstance(found, TokenOwner):
            step = asked.outcomes.owned(found.name, found.life_ms)
        else:
            step = asked.outcomes.refused(found.status, found.detail)
        return self._answer(check, check.login.token_checked(step))

    def _check_token_later(self, check: Check, asked: CheckToken) -> Response:
        def fetched(outcome: HutongError | None) -> None:
            # Otherwise the connection or the node has ended.
            if outcome is None:
                self._check_token(check, asked, may_wait=False)

        assert self._tokens is not None, "a token has been checked once"
        try:
            self._tokens.wait(fetched, check.peer.owner)
        except LimitExceeded:
            return self._answer(check, check.login.fail(SaslFault.BUSY, _TOKENS_BUSY))
        check.promised = PendingResponse()
        return check.promised

    # A password or a proof that is checked.

    def _check(self, check: Check, asked: CheckPassword | CheckProof) -> Response:
        """Check now, or once a guess for this user may be made; the connection is not read meanwhile."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._guesses.wait_ms(asked.user, check.peer.address, check.since_ms, now_ms)
        if wait_ms:
            return self._check_later(check, asked, now_ms + wait_ms)
        # A proof is checked at once: the client has done the expensive hashing (SCRAM, RFC 5802).
        if isinstance(asked, CheckProof):
            step = check.login.proved(asked)
            # A malformed proof says nothing about the password.
            self._note_guess(check, asked.user, None if _is_of_other_cause(step) else isinstance(step, Accepted))
            return self._answer(check, step)
        return self._check_password(check, asked)

    def _check_later(self, check: Check, asked: CheckPassword | CheckProof, at_ms: int) -> Response:
        def check_now(outcome: HutongError | None) -> None:
            if isinstance(outcome, Expired):
                self._check(check, asked)

        try:
            self._waits.turns.park(check.peer, check_now, deadline_ms=at_ms, owner=check.peer.owner)
        except LimitExceeded:
            return self._answer(check, check.login.fail(SaslFault.BUSY, _BUSY))
        # The first delay of this check; it may be delayed again.
        if check.promised is None:
            self._figures.delayed_total += 1
            check.promised = PendingResponse()
        return check.promised

    def _check_password(self, check: Check, asked: CheckPassword) -> Response:
        """Check a password on a worker."""
        peer, login = check.peer, check.login

        def settled(outcome: bool | HutongError) -> None:
            # Otherwise the connection or the node has ended, and nobody waits for the answer.
            if isinstance(outcome, bool):
                self._answer(check, login.checked(asked.user, is_right=outcome))

        def worked(outcome: bool | BaseException) -> None:
            self._note_guess(check, asked.user, outcome if isinstance(outcome, bool) else None)
            self._waits.checks.resume(peer, outcome is True)
            if isinstance(outcome, BaseException):
                raise outcome  # a fault of ours: the loop reports it

        try:
            ticket = self._waits.checks.park(peer, settled, owner=peer.owner)
        except LimitExceeded:
            self._note_guess(check, asked.user, None)
            return self._answer(check, login.fail(SaslFault.BUSY, _BUSY))
        promised = check.promised = check.promised or PendingResponse()
        try:
            self._workers.submit(partial(self._password_check(asked.user), asked.password), worked)
        except LimitExceeded:
            # The worker never got it, so its answer will not come.
            ticket.abandon()
            self._note_guess(check, asked.user, None)
            return self._answer(check, login.fail(SaslFault.BUSY, _BUSY))
        return promised

    def _note_guess(self, check: Check, user: str, is_right: bool | None) -> None:
        now_ms = self._clock.monotonic_ms()
        self._guesses.ended(user, check.peer.address, now_ms, is_right=is_right)

    def _answer(self, check: Check, step: Accepted | Challenge | Rejected) -> Response:
        response = self._settle(step, check.peer, check.login, check.encode, check.promised)
        # The connection was held until now; its next request may be read.
        if check.promised is not None:
            check.peer.release()
        return response

    def _settle(
        self,
        step: Accepted | Challenge | Rejected,
        peer: Peer,
        login: Login,
        encode: Encode,
        promised: PendingResponse | None,
    ) -> Response:
        """The answer to one message, which may have been promised."""
        answer = encode(step)
        if isinstance(step, Rejected):
            # Bare frames of SaslHandshake version 0 have no place for an error code: the connection only ends.
            if not login.is_raw:
                self._dispatch.errors.note(AUTHENTICATE, {ErrorCode.SASL_AUTHENTICATION_FAILED})
            return self._refuse(peer, login, step, answer, promised)
        if isinstance(step, Accepted):
            self._let_in(peer, login, step)
        if promised is None:
            return answer
        promised.complete(answer)
        return promised

    # What follows.

    def _let_in(self, peer: Peer, login: Login, accepted: Accepted) -> None:
        self._waits.deadlines.resume(peer, None)
        self._waits.sessions.resume(peer, None)
        totals = self._figures.succeeded_total if login.accepted_total == 1 else self._figures.again_total
        mechanism = login.mechanism or ""
        totals[mechanism] = totals.get(mechanism, 0) + 1
        session = _session(peer)
        session.principal, session.is_by_token = Principal(USER, accepted.user), accepted.is_by_token
        # The small limit was for strangers.
        peer.frame_limit = self._frame_bytes_max
        # connections.max.reauth.ms of the node (KIP-368); 0 lets a session last as long as its connection.
        if login.session_ms:
            self._begin_session(peer, login)

    def _begin_session(self, peer: Peer, login: Login) -> None:
        def ended(outcome: HutongError | None) -> None:
            if isinstance(outcome, Expired):
                peer.express = None
                login.expire()

        deadline_ms = self._clock.monotonic_ms() + login.session_ms
        self._waits.sessions.park(peer, ended, deadline_ms=deadline_ms, owner=peer.owner)

    def _begin_deadline(self, peer: Peer) -> None:
        def ended(outcome: HutongError | None) -> None:
            login = _session(peer).login
            if login is not None and isinstance(outcome, Expired):
                self._note(peer, login, login.fail(SaslFault.DEADLINE, "nothing came of it in time"))
                peer.close()

        peer.frame_limit = self._limits.frame_bytes_max
        deadline_ms = self._clock.monotonic_ms() + self._limits.deadline_ms
        self._waits.deadlines.park(peer, ended, deadline_ms=deadline_ms, owner=peer.owner)

    def _refuse_misplaced(self, header: RequestHeader, peer: Peer, login: Login) -> Response:
        """Refuse a request that is not allowed before authentication; only those of SASL get an answer."""
        rejected = login.fail(SaslFault.STATE, f"a request with API key {header.api_key} before authentication")
        answer = sasl_frames.illegal_state(header)
        if answer is not None:
            self._dispatch.requests_total[header.api_key] += 1
            self._dispatch.errors.note(header.api_key, {ErrorCode.ILLEGAL_SASL_STATE})
        return self._refuse(peer, login, rejected, answer)

    def _refuse(
        self,
        peer: Peer,
        login: Login,
        rejected: Rejected,
        answer: list[Buffer] | None,
        promised: PendingResponse | None = None,
    ) -> PendingResponse:
        """Answer after a delay, so that every guess at a password costs time (KIP-306), and close a moment later."""
        self._note(peer, login, rejected)
        self._waits.deadlines.resume(peer, None)
        pending = promised or PendingResponse()

        def over(_: HutongError | None) -> None:
            pending.complete(answer)
            if answer is None:
                peer.close()
            else:
                self._after(LINGER_MS, peer, lambda _: peer.close())

        self._after(self._limits.failure_delay_ms, peer, over)
        return pending

    def _after(self, delay_ms: int, peer: Peer, then: Continuation[None]) -> None:
        """Call `then` after a delay, in which nothing is read. If too many wait, close the connection at once."""
        try:
            self._waits.delays.park(peer, then, deadline_ms=self._clock.monotonic_ms() + delay_ms, owner=peer.owner)
        except LimitExceeded:
            peer.close()

    def _note(self, peer: Peer, login: Login, rejected: Rejected) -> None:
        """Count a failure and log it, with one line at most in each interval."""
        self._figures.failed_total[rejected.fault] += 1
        skipped = self._log_limit.admit(self._clock.monotonic_ms())
        if skipped is None:
            return
        _log.warning(
            "the authentication of %s at listener %s failed (%s): %s (%d more like it before)",
            peer,
            _session(peer).listener.name,
            login.mechanism or "no mechanism yet",
            rejected.detail,
            skipped,
        )


def _is_of_other_cause(step: Accepted | Rejected) -> bool:
    return isinstance(step, Rejected) and step.fault is not SaslFault.CREDENTIALS


def _session(peer: Peer) -> ClientSession:
    return cast("ClientSession", peer.session)
