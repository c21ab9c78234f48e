"""Retrying callers: one call, several attempts with one request id, within the call's time.

Strategy: an attempt that fails without an answer (no service, connection lost, the service could not store the call) is
followed by another after a pause. So is one without an answer for a while; its answer still counts, as it may only be
late. Pauses grow exponentially, less a random jitter, so that callers who failed together do not retry together. The
first answer ends the call. An answer of the service itself, failure or result, is never retried.

Knows no wire: it wraps a transport and is one. Its work runs on the loop that created it; callers on other loops are
called back on theirs.
"""

import asyncio
from asyncio import _get_running_loop
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import ParkedWait, WaitTable
from hutong.rpc.call import Outcome
from hutong.rpc.calling.elsewhere import begin_elsewhere
from hutong.rpc.calling.transport import Abandon, Ended, OutgoingCall, Transport
from hutong.rpc.delivery.caller.session import CallerSession
from hutong.rpc.delivery.caller.session_ids import SessionIds
from hutong.rpc.delivery.ids import CallId, parse_request_id
from hutong.rpc.delivery_port import ACKED_BELOW, NEEDS_MEMORY, REQUEST_ID
from hutong.rpc.errors import (
    NOT_EXECUTED_CODE,
    REQUEST_EXPIRED_CODE,
    CallTimeout,
    ConnectionLost,
    NoService,
    NotExecuted,
    OutcomeUnknown,
    Overloaded,
)
from hutong.rpc.options import CallOptions, Delivery

SESSIONS_MAX: Final = 10_000  # services that one caller has sessions with; idle ones make room
PAUSES_MAX: Final = 1_000_000  # calls that wait for their next attempt


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses between attempts.

    The n-th pause is the first times `factor` to the power n-1, at most `pause_ms_max`, less a random share of up to
    `jitter` (0 to 1).

    `first_pause_ms` follows an attempt that failed, `first_patience_ms` one without an answer. Raises UsageError for
    invalid values.
    """

    first_pause_ms: int = 50
    first_patience_ms: int = 1_000
    pause_ms_max: int = 5_000
    factor: float = 2.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.first_pause_ms <= self.pause_ms_max or not 1 <= self.first_patience_ms <= self.pause_ms_max:
            raise UsageError("Pace: first_pause_ms and first_patience_ms are from 1 to pause_ms_max.")
        if not 1 <= self.factor <= 100 or not 0 <= self.jitter <= 1:
            raise UsageError("Pace: factor is from 1 to 100 and jitter from 0 to 1.")

    def pause_ms(self, attempts: int, chance: float, *, is_silent: bool) -> int:
        """The pause after this number of attempts (1 or more); `chance` is from 0 up to 1."""
        first = self.first_patience_ms if is_silent else self.first_pause_ms
        grown = min(first * self.factor ** min(attempts - 1, 64), self.pause_ms_max)
        return max(1, round(grown * (1 - self.jitter * chance)))


class Reliability:
    """Makes transports that try again, for the deliveries that do (a `MakeReliable`). One for each transport.

    Made on the loop of `wheel`. `chance` shortens pauses, `random_bits` makes names of sessions.
    """

    def __init__(
        self,
        clock: Clock,
        wheel: TimerWheel,
        *,
        pace: Pace | None = None,
        chance: Callable[[], float],
        random_bits: Callable[[int], int],
    ) -> None:
        self.clock = clock
        self.pace = pace or Pace()
        self.chance = chance
        self.waits: WaitTable[None] = WaitTable("rpc_pauses", wheel, PAUSES_MAX)
        self.is_closed = False
        self.loop = asyncio.get_running_loop()
        self._make_session = SessionIds(clock, random_bits).make
        self._sessions: dict[str, CallerSession] = {}

    def __call__(self, transport: Transport, options: CallOptions) -> "ReliableTransport":
        """Raises UsageError for a request id that is none."""
        return ReliableTransport(self, transport, options)

    def close(self, error: HutongError) -> None:
        """Fail the calls that wait for their next attempt. From now on none is tried again."""
        self.is_closed = True
        self.waits.close(error)

    def session(self, address: str) -> CallerSession:
        session = self._sessions.get(address)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                # An idle session has no call in flight, so a new one can replace it without losing an acknowledgement.
                self._sessions = {name: each for name, each in self._sessions.items() if not each.is_idle}
            if len(self._sessions) >= SESSIONS_MAX:
                raise LimitExceeded("sessions_max", SESSIONS_MAX)
            session = self._sessions[address] = CallerSession(self._make_session)
        return session


class ReliableTransport:
    """Calls with one set of options."""

    def __init__(self, reliability: Reliability, transport: Transport, options: CallOptions) -> None:
        self._reliability = reliability
        self._transport = transport
        # At most once means one attempt: a second could execute the call again.
        self._retries = 0 if options.delivery is Delivery.AT_MOST_ONCE else options.retries
        self._needs_memory = options.delivery is Delivery.DEDUPLICATED
        self._own_id: CallId | None = None
        if options.request_id is not None:
            try:
                self._own_id = parse_request_id(options.request_id)
            except HutongError as error:
                raise UsageError(f"request_id: {error}; make one with hutong.rpc.new_request_id().") from None

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        """Raises TypeError or ValueError for arguments that cannot be encoded."""
        reliability = self._reliability
        loop = _get_running_loop()
        # No hop is needed: the caller is on the transport's own loop, or in a thread without any.
        if loop is None or loop is reliability.loop:
            return self._begin(call, timeout_ms, done)
        return begin_elsewhere(reliability.loop, loop, partial(self._begin, call, timeout_ms), done)

    def _begin(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        attempts = _Attempts(self._reliability, self._transport, call, timeout_ms, done)
        attempts.begin_attempts(self._retries, self._own_id, needs_memory=self._needs_memory)
        return attempts.abandon


class _Attempts:
    """One call."""

    __slots__ = (
        "_abandons",
        "_call",
        "_deadline_ms",
        "_done",
        "_doubt",
        "_headers",
        "_id",
        "_pause",
        "_refusal",
        "_reliability",
        "_retries_left",
        "_session",
        "_transport",
        "_tried",
    )

    def __init__(
        self, reliability: Reliability, transport: Transport, call: OutgoingCall, timeout_ms: int, done: Ended
    ) -> None:
        self._reliability = reliability
        self._transport = transport
        self._call = call
        self._deadline_ms = reliability.clock.monotonic_ms() + timeout_ms
        self._done: Ended | None = done
        self._abandons: dict[int, Abandon] = {}  # attempts that are still listened to
        self._pause: ParkedWait[None] | None = None
        self._tried = 0
        self._doubt: HutongError | None = None  # of an earlier attempt: it may have had its effect
        self._refusal: Outcome | HutongError | None = None  # of the latest attempt that certainly had none

    def begin_attempts(self, retries: int, own_id: CallId | None, *, needs_memory: bool) -> None:
        reliability = self._reliability
        self._retries_left = retries
        # An application's own id belongs to no session of ours, so nothing is acknowledged with it.
        self._session = None if own_id else reliability.session(self._call.address)
        now_ms = reliability.clock.monotonic_ms()
        self._id = own_id or self._session.next_call_id(now_ms)  # type: ignore[union-attr]  # one of both
        self._headers = (*self._call.headers, (REQUEST_ID, str(self._id)))
        # A service without a call memory must refuse the call instead of executing it again on a repeat.
        if needs_memory:
            self._headers = (*self._headers, (NEEDS_MEMORY, "true"))
        try:
            self._begin_attempt()
        # The call never started: its sequence number must not hold back acknowledgements.
        except BaseException:
            self._settle()
            raise

    def abandon(self) -> None:
        # The caller may give up after the outcome: then there is nothing left to release.
        if self._done is not None:
            self._settle()

    def _begin_attempt(self) -> None:
        self._tried += 1
        number, now_ms = self._tried, self._reliability.clock.monotonic_ms()
        headers = self._headers
        # Piggybacked on each attempt: acknowledgements cost no message of their own.
        if self._session is not None and (below := self._session.acked_below(self._id)):
            headers = (*headers, (ACKED_BELOW, str(below)))
        attempt = OutgoingCall(self._call.site, self._call.arguments, headers)
        # Each attempt has the rest of the call's time, not its own timeout.
        left_ms = max(1, self._deadline_ms - now_ms)
        self._abandons[number] = self._transport.begin_call(attempt, left_ms, partial(self._ended, number))
        if self._retries_left:
            # A hedge: another attempt follows if this one stays silent. Both count.
            self._park_next_attempt(is_silent=True)

    def _park_next_attempt(self, *, is_silent: bool) -> None:
        """Park the next attempt, unless the time of the call is over before."""
        reliability = self._reliability
        # An attempt failed while the pause for its silence ran: that of a failure, by default shorter, replaces it.
        if self._pause is not None:
            self._pause.abandon()
        if reliability.is_closed:
            self._retries_left = 0
            if not self._abandons:
                self._finish(self._verdict())
            return
        pause_ms = reliability.pace.pause_ms(self._tried, reliability.chance(), is_silent=is_silent)
        next_ms = reliability.clock.monotonic_ms() + pause_ms
        try:
            self._pause = reliability.waits.park(
                self, self._resume_after_pause, deadline_ms=min(next_ms, self._deadline_ms)
            )
        except LimitExceeded as error:  # too many calls wait: this one has only the attempts that it has started
            self._retries_left = 0
            self._refusal = Overloaded(str(error))
            if not self._abandons:
                self._finish(self._verdict())

    def _resume_after_pause(self, why: HutongError | None) -> None:
        self._pause = None
        # The wait table was closed: the node or the client shuts down.
        if not isinstance(why, Expired):
            self._finish(self._doubt or why or CallTimeout())
        # Woken for the next attempt, not for the end of the call's time.
        elif self._reliability.clock.monotonic_ms() < self._deadline_ms:
            self._retries_left -= 1
            self._begin_next_attempt()
        # The call's time is over. An attempt that is still under way ends by its own timeout, at this moment.
        elif not self._abandons:
            self._finish(self._verdict())

    def _begin_next_attempt(self) -> None:
        try:
            self._begin_attempt()
        # A bound on this side: the attempt had no effect, and another one may find room.
        except LimitExceeded as error:
            self._ended(self._tried, Overloaded(str(error)))
        except HutongError as error:
            self._finish(self._doubt or error)
        except (TypeError, ValueError) as error:  # the first attempt could be encoded: a codec has gone since
            self._finish(self._doubt or UsageError(str(error)))

    def _verdict(self) -> Outcome | HutongError:
        """The outcome of a call without an answer: any attempt that may have been executed decides.

        If every attempt was refused before execution, nothing happened, and the caller gets the reason.
        """
        if self._doubt is not None:
            return self._doubt
        return self._refusal or CallTimeout(f"{self._call.address}: no attempt was answered in time")

    def _ended(self, number: int, outcome: Outcome | HutongError) -> None:
        # An attempt may end on its way to being abandoned: the call has its outcome already.
        if self._done is None:
            return
        self._abandons.pop(number, None)
        if isinstance(outcome, Outcome) and outcome.failure and outcome.failure.code == REQUEST_EXPIRED_CODE:
            self._expired(outcome)
            return
        # The service answered: its failures are final as well. NOT_EXECUTED alone asks for a repeat.
        if isinstance(outcome, Outcome) and (outcome.failure is None or outcome.failure.code != NOT_EXECUTED_CODE):
            self._finish(outcome)
            return
        if isinstance(outcome, CallTimeout | ConnectionLost):
            # Silence and lost connections leave open whether it was executed. From now on no refusal of a later attempt
            # may claim that nothing happened.
            self._doubt = outcome
        # An error that a repeat cannot change, such as a reply of the wrong type.
        elif not isinstance(outcome, Outcome | NoService | NotExecuted | Overloaded):
            self._finish(outcome)
            return
        else:
            self._refusal = outcome
        if self._retries_left:
            self._park_next_attempt(is_silent=False)
        elif not self._abandons:
            self._finish(self._verdict())

    def _expired(self, refusal: Outcome) -> None:
        """The service has forgotten the session: its clock may have jumped ahead."""
        # Without another one, all calls to come would be refused as well.
        if self._session is not None:
            self._session.leave(self._id)
        # It has forgotten what earlier attempts did, too.
        doubt = self._doubt or (OutcomeUnknown("an earlier attempt is unanswered") if self._abandons else None)
        self._finish(doubt or refusal)

    def _finish(self, outcome: Outcome | HutongError) -> None:
        done = self._done
        # First: `done` may begin another call, which must find this one's sequence number acknowledged.
        self._settle()
        if done is not None:
            done(outcome)

    def _settle(self) -> None:
        self._done = None
        if self._pause is not None:
            self._pause.abandon()
            self._pause = None
        abandons, self._abandons = self._abandons, {}
        for abandon in abandons.values():
            abandon()
        if self._session is not None:
            self._session.end(self._id)
