"""Meters clients that have quotas, and mutes those that went over; answers are never held up (KIP-219).

Strategy: what a request used is known when its answer is: bytes received of a Produce, bytes sent of a Fetch, and the
loop's time of any. The longest wait of them is put into the answer as its throttle time; until it is over the
connection's further requests are held unread, so that a client which does not wait by itself waits all the same. What
creates and deletes partitions is noted before, for it may be refused (`Mutations`).

Differs from Kafka in one thing: a Fetch that goes over is answered with its records, and the wait makes up for them;
Kafka answers without records. How much one Fetch may be over is bounded by what a window allows.

Knows nothing of sockets, nor of what is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.quotas.entities import FETCH, MUTATION, PRODUCE, REQUEST
from hutong.foundation.buckets import Buckets
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.quotas.book import QuotaBook
    from hutong.foundation.clock import Clock
    from hutong.foundation.errors import HutongError
    from hutong.foundation.waiting.table import WaitTable
    from hutong.wire.kafka.apis.k01_fetch import FetchRequest

_PRODUCE_KEY: Final = 0
_FETCH_KEY: Final = 1
_US_PER_PERCENT_S: Final = 10_000  # a hundredth of a second of the loop: one percent of one second


class Mutations:
    """The changes of one request. A strict one is refused after too many changes; any other is answered and muted."""

    def __init__(self, meter: Meter, user: str, client_id: str, is_strict: bool) -> None:
        self._meter = meter
        self._user = user
        self._client_id = client_id
        self._is_strict = is_strict
        self._wait_ms = 0

    def take(self, partitions: int) -> None:
        """Count changes against the quota. Raises Refused(THROTTLING_QUOTA_EXCEEDED)."""
        wait_ms = self._meter.use_mutations(self._user, self._client_id, partitions, self._is_strict)
        if not wait_ms:
            return
        self._wait_ms = max(self._wait_ms, wait_ms)
        # KIP-599: newer clients retry a refused change; older ones would take the error for final, so they only wait.
        if self._is_strict:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    def throttle(self, response: Throttled, session: ClientSession) -> None:
        """Tell the client how long it is to wait, and hold what it asks until then."""
        if self._wait_ms:
            response.throttle_time_ms = max(response.throttle_time_ms, self._wait_ms)
            self._meter.mute(session, self._wait_ms)


class Throttled(Protocol):
    """A response that tells of a wait."""

    throttle_time_ms: int


class MeteredParts(Protocol):
    """The part of the broker that a request uses whose changes of partitions count."""

    meter: Meter


class Meter:
    """The usage of clients, and the muted sessions. `is_on` while any client is metered or muted."""

    def __init__(self, book: QuotaBook, clock: Clock, muted: WaitTable[None], window_ms: int) -> None:
        self.is_on = False
        self._book = book
        self._clock = clock
        self._waiting = muted
        self._buckets = Buckets(window_ms)
        self._muted: dict[int, int] = {}  # ids of peers, and until when
        book.on_change = self._update

    def is_muted(self, session: ClientSession) -> bool:
        return session.id in self._muted

    def limit_fetch(self, request: FetchRequest, user: str, client_id: str | None) -> None:
        """Let a Fetch ask for no more than its quota allows in a window; at least a batch is answered anyway."""
        quota = self._book.quota_for(FETCH, user, client_id or "")
        if quota is not None:
            request.max_bytes = min(request.max_bytes, max(1, int(self._buckets.burst(quota[0]))))

    def throttle_ms(
        self, api_key: int, user: str, client_id: str | None, received_bytes: int, sent_bytes: int, spent_us: int
    ) -> int:
        """Note what a request used; returns for how long its client is to wait, in milliseconds."""
        name = client_id or ""
        # KIP-124: request_percentage counts the time of threads; the loop is the one thread here.
        wait_ms = self._use(REQUEST, user, name, spent_us / _US_PER_PERCENT_S)
        if api_key == _PRODUCE_KEY:
            wait_ms = max(wait_ms, self._use(PRODUCE, user, name, received_bytes))
        elif api_key == _FETCH_KEY:
            wait_ms = max(wait_ms, self._use(FETCH, user, name, sent_bytes))
        return wait_ms

    def use_mutations(self, user: str, client_id: str, partitions: int, is_strict: bool) -> int:
        """Note them, a strict one only where nothing is to be waited for; returns for how many ms to wait."""
        quota = self._book.quota_for(MUTATION, user, client_id)
        if quota is None:
            return 0
        rate, sharers = quota
        use = self._buckets.use_unless_owed if is_strict else self._buckets.use
        return use((MUTATION, sharers), rate, partitions, self._clock.monotonic_ms())

    def mute(self, session: ClientSession, wait_ms: int) -> None:
        """Hold what the session asks from now on, until the time is over."""
        until_ms = self._clock.monotonic_ms() + wait_ms
        is_muted = session.id in self._muted
        self._muted[session.id] = max(until_ms, self._muted.get(session.id, 0))
        if not is_muted:
            self.is_on = True
            self._park(session)

    def _park(self, session: ClientSession) -> None:
        def is_over(_outcome: HutongError | None) -> None:
            if session.owner.has_ended or self._clock.monotonic_ms() >= self._muted[session.id]:
                del self._muted[session.id]
                self._update()
                session.release()
            else:
                self._park(session)  # requests that were in flight together made it longer

        self._waiting.park(session.id, is_over, deadline_ms=self._muted[session.id], owner=session.owner)

    def _update(self) -> None:
        self.is_on = self._book.is_in_force or bool(self._muted)

    def _use(self, key: str, user: str, client_id: str, amount: float) -> int:
        quota = self._book.quota_for(key, user, client_id)
        if quota is None:
            return 0
        rate, sharers = quota
        return self._buckets.use((key, sharers), rate, amount, self._clock.monotonic_ms())


def mutations_of(context: RequestContext[MeteredParts], strict_from_version: int) -> Mutations:
    """The changes of a request that creates or deletes partitions, strict from a version of its API on (KIP-599)."""
    is_strict = context.api_version >= strict_from_version
    return Mutations(context.broker.meter, context.principal.name, context.client_id or "", is_strict)
