"""A fetch until its answer: passes over its partitions, and the wait between them.

Strategy: make one pass; if it found enough, answer. Otherwise park one continuation and watch every partition. The pass
that finds enough data after a wake-up is the one that is answered, so a woken fetch reads its partitions once.

Fetches of more than WHOLE_PARTITIONS_MAX partitions make their passes in stretches, with loop iterations for other
connections between them (`broker/dispatch/long_requests.py`). So do all fetches that wake a second time, because a
flush may notify a thousand partitions in one loop iteration.

Knows nothing of reading: that is `fetch_pass`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.fetch.fetch_pass import NO_EPOCH_ENDS, EpochEnds, FetchPass, ReadRights, read_rights
from hutong.broker.handling.context import RequestContext
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone
from hutong.foundation.waiting.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hutong.broker.fetch.incremental_fetch import SessionFetch
    from hutong.broker.fetch.parts import FetchParts
    from hutong.foundation.waiting.table import ParkedWait
    from hutong.journal.log import PartitionLog
    from hutong.wire.kafka.apis.k01_fetch import FetchRequest, FetchResponse, FetchTopic

WHOLE_PARTITIONS_MAX: Final = 100
"""Partitions that one pass reads without a break (measured: 3 to 15 us each)."""
PIECE_PARTITIONS: Final = 50  # read between two readings of the clock


class PendingFetch:
    """One Fetch request; `session_fetch` is its part in a fetch session, None if it belongs to none."""

    __slots__ = (
        "_context",
        "_epoch_ends",
        "_has_woken",
        "_is_reading",
        "_parked",
        "_request",
        "_rights",
        "_session_fetch",
        "_watched",
        "pending",
    )

    pending: Pending[FetchResponse]  # made when the first pass is not enough, which it mostly is

    def __init__(
        self, request: FetchRequest, context: RequestContext[FetchParts], session_fetch: SessionFetch | None
    ) -> None:
        self._request = request
        self._context = context
        self._session_fetch = session_fetch
        self._epoch_ends: EpochEnds = NO_EPOCH_ENDS
        self._rights = read_rights(request, context) if context.broker.authorizer.is_on else ReadRights.ALL
        self._watched: list[PartitionLog] = []
        self._parked: ParkedWait[None] | None = None
        self._has_woken = False
        self._is_reading = False  # in stretches

    def begin_fetch(self) -> FetchResponse | Pending[FetchResponse]:
        """The answer, if one pass is enough; else `pending`, which is completed with it."""
        if self._is_wide():
            self.pending = Pending()
            self.pending.is_large = True
            self._read_in_stretches(self._first_pass_ended)
            return self.pending
        found = self._read()
        if found.epochs_wanted is not None:
            self.pending = Pending()
            self.pending.is_large = True
            self._search_epochs(found)
            return self.pending
        if self._may_answer(found):
            answer = found.answer()
            if self._session_fetch is None:
                return answer
            # A disk read makes the answer pending. Sessions note what was sent, so they see the answer when it is
            # whole.
            if not isinstance(answer, Pending):
                return self._session_fetch.finish(answer)
            self.pending = Pending()
            self._answer(answer)
            return self.pending
        self.pending = Pending()
        if not self._wait(found):
            self._answer_throttled(found)
        return self.pending

    # ---- passes

    def _read(self) -> FetchPass:
        """Make a pass over all partitions at once."""
        found = FetchPass(self._request, self._context, self._rights, self._epoch_ends)
        for topic in self._topics():
            found.read_partitions(topic, topic.partitions, found.add_topic(topic))
        if self._session_fetch is not None and found.epochs_wanted is None:
            self._session_fetch.take_pass(found.response)
        return found

    def _read_in_stretches(self, then: Callable[[FetchPass, bool], None]) -> None:
        """Make a pass without holding the loop; `then` gets it, and False if logs have moved since they were read.

        The session gets no pass that is out of date: what it sets aside as idle must have no news.
        """
        context, session_fetch = self._context, self._session_fetch
        found = FetchPass(self._request, context, self._rights, self._epoch_ends)
        ends: list[int] = []  # of `found.logs`, when they were read
        self._is_reading = True

        def steps() -> Iterator[None]:
            for topic in self._topics():
                entries = found.add_topic(topic)
                for at in range(0, len(topic.partitions), PIECE_PARTITIONS):
                    found.read_partitions(topic, topic.partitions[at : at + PIECE_PARTITIONS], entries)
                    # Noted at once: a log that grows between two stretches must be read again.
                    ends.extend(map(found.end_of, found.logs[len(ends) :]))
                    yield

        def ended(error: HutongError | None) -> None:
            self._is_reading = False
            # The queue of long requests is full, or the client has gone.
            if error is not None:
                self._end_wait()
                if not context.session.owner.has_ended:
                    self._answer_throttled(found)
                return
            is_current = all(found.end_of(log) == end for log, end in zip(found.logs, ends, strict=True))
            if is_current and session_fetch is not None and found.epochs_wanted is None:
                session_fetch.take_pass(found.response)
            then(found, is_current)

        context.broker.long_requests.in_stretches(context.session, steps(), ended)

    def _search_epochs(self, found: FetchPass) -> None:
        """Make the first pass anew once the ends of the epochs are known that the request names (KIP-595)."""
        from hutong.broker.fetch.epoch_search import find_epoch_ends  # late: consumers name none

        def searched(ends: EpochEnds) -> None:
            self._epoch_ends = {**self._epoch_ends, **ends}
            self._read_in_stretches(self._first_pass_ended)

        find_epoch_ends(found.epochs_wanted or (), searched)

    def _first_pass_ended(self, found: FetchPass, is_current: bool) -> None:
        if found.epochs_wanted is not None:
            self._search_epochs(found)
        elif self._may_answer(found):
            self._answer(found.answer())
        elif not self._wait(found):
            self._answer_throttled(found)
        elif not is_current:
            # Data came to a partition after it was read and before it was watched: nothing else would wake the fetch.
            self._read_again()

    def _read_again(self) -> None:
        self._read_in_stretches(self._further_pass_ended)

    def _further_pass_ended(self, found: FetchPass, is_current: bool) -> None:
        """Answer with the pass, unless there is time to wait for more."""
        parked = self._parked
        assert parked is not None, "a fetch makes a further pass while it waits, or when it has waited"
        if parked.is_waiting and not found.is_enough and not self._is_hopeless(found):
            if not is_current:
                self._read_again()
            elif self._session_fetch is not None:
                self._session_fetch.wait(self._data_arrived)
            return
        self._end_wait()
        self._answer(found.answer())

    def _topics(self) -> Sequence[FetchTopic]:
        return self._request.topics if self._session_fetch is None else self._session_fetch.topics()

    def _is_wide(self) -> bool:
        """True if the request may read too many partitions for one pass."""
        session_fetch, count = self._session_fetch, 0
        for topic in self._request.topics:
            count += len(topic.partitions)
        return count > WHOLE_PARTITIONS_MAX or (
            session_fetch is not None and session_fetch.due_partitions > WHOLE_PARTITIONS_MAX
        )

    def _may_answer(self, found: FetchPass) -> bool:
        """True if the first pass found enough, or if the client does not wait, or waiting is of no use."""
        return found.is_enough or self._request.max_wait_ms <= 0 or self._is_hopeless(found)

    def _is_hopeless(self, found: FetchPass) -> bool:
        """True if there is nothing to wait for: none of the partitions exists."""
        return not found.logs and (self._session_fetch is None or not self._session_fetch.idle_partitions)

    # ---- waiting

    def _wait(self, found: FetchPass) -> bool:
        """Park until data arrives in one of the partitions or the time is over. False if too many fetches wait."""
        broker, session = self._context.broker, self._context.session
        # Without a bound a client could keep a parked fetch and its watches for weeks.
        wait_ms = min(self._request.max_wait_ms, broker.settings.fetch_wait_ms_max)
        try:
            self._parked = broker.fetches.park(
                session.id,
                self._woken,
                deadline_ms=broker.clock.monotonic_ms() + wait_ms,
                owner=session.owner,
            )
        except LimitExceeded:
            return False
        # A session watches its idle partitions itself, for all its requests.
        if self._session_fetch is None or not self._session_fetch.wait(self._data_arrived):
            self._watched = found.logs
            for log in self._watched:
                log.watch(self._data_arrived)
        return True

    def _data_arrived(self) -> None:
        """Notice that a watched log has more, while the log is being advanced."""
        # Its wait is over, or the pass that is under way finds the data itself.
        if self._parked is None or not self._parked.is_waiting or self._is_reading:
            return
        if self._has_woken or self.pending.is_large:
            # Each partition that a flush moved calls once. Only the first call reads at once; one pass in a later
            # loop iteration serves all calls that follow.
            self._read_again()
            return
        self._has_woken = True
        found = self._read()
        # `min_bytes` counts over all partitions, so news in one may not be enough.
        if found.is_enough or self._is_hopeless(found):
            self._end_wait()
            self._answer(found.answer())
        elif self._session_fetch is not None:
            self._session_fetch.wait(self._data_arrived)

    def _end_wait(self) -> None:
        """Watch no more, if the request waits; the caller answers."""
        if self._parked is not None and self._parked.is_waiting:
            self._is_reading = True  # so that `_woken` leaves the answer to the pass that has just ended
            self._parked.resume(None)
            self._is_reading = False

    def _woken(self, outcome: HutongError | None) -> None:
        """Stop watching: the time is over, the connection or the node ends, or a pass has found enough."""
        for log in self._watched:
            log.unwatch(self._data_arrived)
        if self._session_fetch is not None:
            self._session_fetch.wait_no_more(self._data_arrived)
        if isinstance(outcome, OwnerGone) and self._context.session.owner.has_ended:
            return  # nobody is left to answer
        if self._is_reading:
            return  # the pass that is under way answers at its end
        if self.pending.is_large:
            self._read_again()
        else:
            # A new pass even though nothing woke this one: data below `min_bytes` is answered when the time is over.
            self._answer(self._read().answer())

    # ---- answers

    def _answer_throttled(self, found: FetchPass) -> None:
        """Answer a fetch that cannot wait because too many do; its client comes back after a pause."""
        found.throttle()
        self._answer(found.answer())

    def _answer(self, answer: FetchResponse | Pending[FetchResponse]) -> None:
        """Complete `pending`, with what the session makes of the answer."""
        if isinstance(answer, Pending):
            answer.then(self._answer)
        else:
            self.pending.complete(answer if self._session_fetch is None else self._session_fetch.finish(answer))
