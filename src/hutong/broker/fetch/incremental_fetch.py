"""A fetch in a session (KIP-227): the partitions that it reads, and those of them that its answer has.

Strategy: a fetch asks its `SessionFetch` which partitions to read, hands it each pass, and lets it make the final
response. `FullFetch` reads the partitions that the request names and opens a session with its answer. An
`IncrementalFetch` reads the due partitions, answers those with news, and lets the others watch their logs. A request
that is refused gets a response at once.

Knows nothing of reading: `fetch_pass` does that, in a session as without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from hutong.broker.fetch.fetch_pass import IDS_FROM_VERSION, READ_COMMITTED
from hutong.broker.fetch.session_table import FIRST_EPOCH, NO_SESSION_EPOCH, Entry, FetchSession, next_epoch
from hutong.broker.handling.holders import holder_of
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.fetch.parts import FetchParts
    from hutong.broker.handling.context import RequestContext
    from hutong.journal.log import PartitionLog


def begin_session_fetch(
    request: FetchRequest, context: RequestContext[FetchParts]
) -> SessionFetch | FetchResponse | None:
    """The session's part of a request that names a session or asks for one; None if it continues without one."""
    sessions = context.broker.fetch_sessions
    if request.session_epoch in (FIRST_EPOCH, NO_SESSION_EPOCH):
        sessions.close(request.session_id)
        return FullFetch(request, context) if request.session_epoch == FIRST_EPOCH else None
    session = sessions.begin_session_fetch(
        request.session_id,
        request.session_epoch,
        request.topics,
        request.forgotten_topics_data,
        uses_ids=context.api_version >= IDS_FROM_VERSION,
        now_ms=context.broker.clock.monotonic_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    # The client has forgotten every partition: what is left is a fetch of nothing.
    if session.is_dropped:
        return None
    return IncrementalFetch(session, request, context)


class FullFetch:
    """A fetch of the partitions that the request names; its answer opens a session."""

    __slots__ = ("_context", "_request")

    due_partitions = 0  # of the session, without those that the request names
    idle_partitions = 0  # of the session, that are not due

    def __init__(self, request: FetchRequest, context: RequestContext[FetchParts]) -> None:
        self._request = request
        self._context = context

    def topics(self) -> Sequence[FetchTopic]:
        """The partitions to read now, in this order."""
        return self._request.topics

    def take_pass(self, response: FetchResponse) -> None:
        """Note nothing: a full answer has every partition."""

    def wait(self, wake: Callable[[], None]) -> bool:
        """Let the request wait; False if the caller must watch the logs itself, because nothing calls `wake`."""
        return False

    def wait_no_more(self, wake: Callable[[], None]) -> None:
        """Do nothing: there is no session yet that could wait."""

    def finish(self, response: FetchResponse) -> FetchResponse:
        """The response to send, made of that of the last pass."""
        context = self._context
        uses_ids = context.api_version >= IDS_FROM_VERSION
        session = context.broker.fetch_sessions.open(
            [
                (topic.topic_id if uses_ids else topic.topic, asked)
                for topic in self._request.topics
                for asked in topic.partitions
            ],
            uses_ids=uses_ids,
            is_follower=self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0,
            now_ms=context.broker.clock.monotonic_ms(),
            holder=holder_of(context),
        )
        # No slot: session id 0 makes the client send full fetches (KIP-227).
        if session is None:
            return response
        response.session_id = session.id
        session.isolation_level = self._request.isolation_level
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id if uses_ids else topic.topic, data.partition_index
                session.entries[key].note_sent(data)
        return response


class IncrementalFetch:
    """A fetch of the session's due partitions; its answer has those with something new."""

    __slots__ = ("_context", "_epoch", "_is_committed_only", "_read_entries", "_session")

    def __init__(self, session: FetchSession, request: FetchRequest, context: RequestContext[FetchParts]) -> None:
        self._session = session
        self._context = context
        self._epoch = next_epoch(request.session_epoch)  # the session's, until another request of it begins
        self._is_committed_only = request.isolation_level == READ_COMMITTED
        self._read_entries: list[tuple[Entry, PartitionLog | None]] = []
        # Aborted records are news to an uncommitted reader, and the end differs: what is known no longer counts.
        if session.isolation_level != request.isolation_level:
            session.isolation_level = request.isolation_level
            session.all_due()

    @property
    def due_partitions(self) -> int:
        return len(self._session.due)

    @property
    def idle_partitions(self) -> int:
        return len(self._session.entries) - len(self._session.due)

    def topics(self) -> Sequence[FetchTopic]:
        self._read_entries = [(entry, self._log_of(entry)) for entry in self._session.in_turn()]
        topics: list[FetchTopic] = []
        before: str | bytes | None = None
        for entry, _ in self._read_entries:
            # A topic comes several times where turns interleave; the response has one entry for each run.
            if entry.topic != before:
                before = entry.topic
                topics.append(FetchTopic(topic_id=before) if isinstance(before, bytes) else FetchTopic(topic=before))
            topics[-1].partitions.append(entry.asked)
        return topics

    def take_pass(self, response: FetchResponse) -> None:
        data_of_all = (data for topic in response.responses for data in topic.partitions)
        for (entry, log), data in zip(self._read_entries, data_of_all, strict=True):
            end = data.last_stable_offset if self._is_committed_only else data.high_watermark
            # Behind the end there is more to read, although this pass may have had no room for it.
            if log is not None and entry.asked.fetch_offset >= end and entry.is_known(data):
                self._session.put_idle(entry, log)

    def wait(self, wake: Callable[[], None]) -> bool:
        self._session.wake = wake
        for entry, log in self._read_entries:
            if log is not None:
                entry.watch(log)
        return True

    def wait_no_more(self, wake: Callable[[], None]) -> None:
        self._session.wake_no_more(wake)

    def finish(self, response: FetchResponse) -> FetchResponse:
        session = self._session
        # The client has sent the next request meanwhile, so it has given this one up.
        if session.epoch != self._epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        response.session_id = session.id
        changed: list[FetchableTopicResponse] = []
        entries = iter(self._read_entries)
        for topic in response.responses:
            news = [data for data in topic.partitions if self._is_news(next(entries)[0], data)]
            # KIP-227: partitions without news are left out, which is what a session saves.
            if news:
                topic.partitions = news
                changed.append(topic)
        response.responses = changed
        return response

    def _is_news(self, entry: Entry, data: PartitionData) -> bool:
        # A client that knew the topic must refresh its metadata rather than wait for the id to appear (KIP-516).
        if data.error_code == ErrorCode.UNKNOWN_TOPIC_ID and entry.name is not None:
            data.error_code = self._what_became_of(entry.name)
        if entry.is_known(data):
            return False
        entry.note_sent(data)
        # Partitions with data go behind the others, so that a busy one cannot starve them (KIP-227).
        if data.records:
            self._session.put_last(entry)
        return True

    def _what_became_of(self, name: str) -> ErrorCode:
        """A topic that the session knew by its id, which is gone: nothing has the name, or another topic has it."""
        is_there = self._context.broker.topics.get(name) is not None
        return ErrorCode.INCONSISTENT_TOPIC_ID if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _log_of(self, entry: Entry) -> PartitionLog | None:
        topics = self._context.broker.topics
        topic = topics.by_id(entry.topic) if isinstance(entry.topic, bytes) else topics.get(entry.topic)
        partition = topic.partition(entry.asked.partition) if topic is not None else None
        # There is no log to watch, so the entry stays due and each pass answers its error.
        if partition is None:
            return None
        entry.name = partition.topic_name
        return partition.log


SessionFetch: TypeAlias = FullFetch | IncrementalFetch
"""One request of a session."""
