"""A member of a share group (KIP-932): records of its own for a time, and an answer for each of them.

Strategy: a round is a heartbeat if one is due, a share fetch, some work, and acknowledgements, which go with the next
fetch or in a request of their own. What the member holds is bound to its connection: with the connection the node ends
the share session and gives the records to others, so a member that lost it acknowledges nothing of before. In a cluster
it has a session with each leader, and each round is for the leader of one of its partitions.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected, KafkaConnection
from hutong.testing.simulation.clients.routing.routes import Address
from hutong.testing.simulation.clients.routing.targets import NodeTask, RequestTarget
from hutong.testing.simulation.history import AcquisitionUnknown, RecordsAcquired, RecordsSettled
from hutong.testing.simulation.plan.clients import PlannedShareMember
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from hutong.wire.kafka.apis.k78_share_fetch import ShareFetchRequest
from hutong.wire.kafka.apis.k79_share_acknowledge import ShareAcknowledgeRequest
from hutong.wire.kafka.apis.shared import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    TopicIdPartitions,
)
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

GAP: Final = 0
KINDS: Final = {1: "accepts", 2: "releases", 3: "rejects"}
_JOINS: Final = 0
_LEAVES: Final = -1
_BEGINS: Final = 0
_ENDS: Final = -1
_HEARTBEAT_US: Final = 5_000_000
_WAIT_MS: Final = 500
_BYTES_MAX: Final = 1 << 20
_LEAVE_ATTEMPTS: Final = 3
_CERTAIN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Answers after which it is known whether an acknowledgement counts: one that was not stored may be stored later."""


@dataclass(frozen=True, slots=True)
class _Word:
    """An acknowledgement on its way: records of one partition with one delivery count and one kind."""

    index: int
    kind: int
    delivery_count: int
    offsets: tuple[int, ...]
    begun_us: int


@dataclass(slots=True, eq=False)
class _Session:
    """The member's share session with one node, and what it holds by that."""

    connection: KafkaConnection  # open or closed: a request of the session may go over no other
    epoch: int = _BEGINS
    partitions: list[int] = field(default_factory=list)  # those that the node's side of the session has
    held: dict[tuple[int, int], int] = field(default_factory=dict)  # (partition, offset) -> delivery count
    gaps: list[tuple[int, int]] = field(default_factory=list)  # acquired offsets without a record

    def begin_anew(self) -> None:
        """It is over, and with it the right to all that was acquired in it."""
        self.epoch = _BEGINS
        self.partitions = []
        self.held.clear()
        self.gaps.clear()


class SimShareConsumer(KafkaClient):
    """One member, of one topic. It acknowledges each record by chance."""

    def __init__(self, context: ClientContext, plan: PlannedShareMember) -> None:
        super().__init__(context)
        self._plan = plan
        self._topic = plan.topic
        self._group = plan.group
        self._members_total = 0
        self._member_id = f"{self.name}.0"
        self._member_epoch = _JOINS
        self._heartbeat_us = 0  # when the next one is due
        self._topic_id = bytes(16)
        self._assigned: list[int] = []
        self._sessions: dict[Address, _Session] = {}

    async def run(self) -> None:
        while not self.is_stopping:
            await self.work_once()
            await self.rest(self._plan.pause_ms)
            # Now and then longer than a lock lasts, or than a session.
            if not self._plan.always_accepts and self.random.random() < 0.01:
                await asyncio.sleep(self.random.choice((5, 20, 40)) * self.random.random())
        await self.leave()

    async def work_once(self) -> None:
        """One round of its work."""
        try:
            if self.routes.is_alone:
                self._session_with(await self.connected())
            if self.now_us >= self._heartbeat_us:
                await self._send_heartbeat()
            # It has not joined yet, or there are more members than partitions for a while.
            if not self._assigned:
                await self.pause()
                return
            session = await self._session_of_turn()
            words = list(self._decide(session))
            # A session begins with a fetch, and until then nothing is held.
            if words and self.random.random() < 0.5:
                await self._acknowledge(session, words)
                words = []
            await self._fetch(session, words)
        except Disconnected:
            self._forget_closed()
            await self.pause()

    async def leave(self) -> None:
        """Give everything back and leave the group, as `close` of a real consumer does."""
        for _ in range(_LEAVE_ATTEMPTS):
            try:
                if self.routes.is_alone:
                    self._session_with(await self.connected())
                # As real clients do: the share session goes on until its last acknowledgements.
                await self.ask(ShareGroupHeartbeatRequest(self._group, self._member_id, _LEAVES), 1)
                for session in list(self._sessions.values()):
                    if session.epoch != _BEGINS:
                        await self._acknowledge(session, list(self._decide(session)), epoch=_ENDS)
                return
            except Disconnected:
                self._forget_closed()
                await self.pause()

    # -- membership

    async def _send_heartbeat(self) -> None:
        # Null means: as before; a member that is unsure says everything again.
        topics = [self._topic] if self._member_epoch == _JOINS or self.random.random() < 0.05 else None
        request = ShareGroupHeartbeatRequest(self._group, self._member_id, self._member_epoch, None, topics)
        answer = await self.ask(request, 1)
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            # Under the same id or, as after a restart of the client, under another one.
            if self.random.random() < 0.3:
                self._members_total += 1
                self._member_id = f"{self.name}.{self._members_total}"
                for session in self._sessions.values():
                    session.begin_anew()
            self._member_epoch = _JOINS
        # A node that ended before the group's first record was stored knows nothing of it.
        elif answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            self._member_epoch = _JOINS
        elif answer.error_code:
            await self.pause()
        else:
            self.went_well()
            self._member_epoch = answer.member_epoch
            self._heartbeat_us = self.now_us + min(_HEARTBEAT_US, answer.heartbeat_interval_ms * 1_000)
            if answer.assignment is not None:
                self._take_assignment(answer.assignment.topic_partitions)

    def _take_assignment(self, topics: list[TopicIdPartitions]) -> None:
        self._assigned = []
        # One topic is subscribed to, so there is one at most.
        for topic in topics:
            self._topic_id, self._assigned = topic.topic_id, sorted(topic.partitions)

    # -- sessions

    async def _session_of_turn(self) -> _Session:
        """The session with the leader of one of its partitions. Raises Disconnected."""
        if self.routes.is_alone:
            return self._session_with(await self.connected())
        index = self.random.choice(self._assigned)
        return self._session_with(await self.connected_for(self._leading(index)))

    def _session_with(self, connection: KafkaConnection) -> _Session:
        """The session over this connection. With a new one to the same node the last session is over."""
        session = self._sessions.get(connection.address)
        if session is None or session.connection is not connection:
            session = self._sessions[connection.address] = _Session(connection)
        return session

    def _forget_closed(self) -> None:
        """Forget the sessions that are over with their connections."""
        for address, session in list(self._sessions.items()):
            if not session.connection.is_open:
                del self._sessions[address]

    def _leading(self, index: int) -> RequestTarget:
        return RequestTarget(NodeTask.LEADS, self._topic, index)

    def _led_by(self, session: _Session) -> list[int]:
        """The member's partitions at a node, as far as it knows."""
        if self.routes.is_alone:
            return self._assigned
        address = session.connection.address
        return [index for index in self._assigned if self.routes.address_of(self._leading(index)) == address]

    # -- records

    async def _fetch(self, session: _Session, words: list[_Word]) -> None:
        wanted = self._led_by(session)
        # Partitions with acknowledgements count as asked for, also those that are not the member's any more.
        node_has = {*session.partitions, *(word.index for word in words)}
        given_up = [index for index in sorted(node_has) if index not in wanted]
        request = ShareFetchRequest(
            self._group,
            self._member_id,
            session.epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            max_records=self.random.choice((1, 5, 50, 500)),
            batch_size=self.random.choice((1, 50)),
            share_acquire_mode=self.random.choice((0, 1)),
            topics=self._topics(words, [index for index in wanted if index not in session.partitions]),
            forgotten_topics_data=[TopicIdPartitions(self._topic_id, given_up)] if given_up else [],
        )
        begun_us = self.now_us
        try:
            answer = await session.connection.ask(request, 2)
        except Disconnected:
            self._settled(session, words, {}, begun_us)
            self._add_unknown(begun_us)
            raise
        if answer.error_code:
            self._session_refused(session, words, begun_us)
            await self.pause()
            return
        session.epoch += 1
        session.partitions = [*wanted]
        parts = [part for topic in answer.responses for part in topic.partitions]
        self._settled(session, words, {part.partition_index: part.acknowledge_error_code for part in parts}, begun_us)
        for part in parts:
            self._acquired(session, part, begun_us, answer.acquisition_lock_timeout_ms * 1_000)
            # It has moved: the next round for it looks for its leader.
            self.routes.heard(self._leading(part.partition_index), None, [ErrorCode(part.error_code)])
        if any(part.error_code for part in parts):
            # What was acquired before its write failed may count as delivered.
            self._add_unknown(begun_us)
            await self.pause()
        else:
            self.went_well()

    def _acquired(self, session: _Session, part: Any, begun_us: int, lock_us: int) -> None:
        records = dict(_records_in(part.records))
        place = (self._topic, part.partition_index)
        for each in part.acquired_records:
            found = []
            for offset in range(each.first_offset, each.last_offset + 1):
                if offset in records:
                    found.append((offset, records[offset]))
                    session.held[(place[1], offset)] = each.delivery_count
                # Offsets of transaction markers, and those that compaction has removed, are acquired with the others.
                else:
                    session.gaps.append((place[1], offset))
            self.history.add(
                RecordsAcquired(
                    self.now_us, begun_us, self.name, self._group, place, each.delivery_count, lock_us, tuple(found)
                )
            )

    def _decide(self, session: _Session) -> Iterator[_Word]:
        """Acknowledge what is held, by chance; some of it later."""
        kinds: dict[tuple[int, int, int], list[int]] = {}
        for (index, offset), count in session.held.items():
            # 0: not yet, perhaps not before another member gets the record.
            kind = 1 if self._plan.always_accepts else self.random.choice((1, 1, 1, 1, 1, 1, 1, 2, 3, 0))
            if kind or self.is_stopping:
                kinds.setdefault((index, kind or 1, count), []).append(offset)
        for index, offset in session.gaps:
            kinds.setdefault((index, GAP, 0), []).append(offset)
        for (index, kind, count), offsets in kinds.items():
            yield _Word(index, kind, count, tuple(sorted(offsets)), self.now_us)

    async def _acknowledge(self, session: _Session, words: list[_Word], epoch: int | None = None) -> None:
        """Acknowledge in a request of its own. Raises Disconnected."""
        epoch = session.epoch if epoch is None else epoch
        request = ShareAcknowledgeRequest(self._group, self._member_id, epoch, topics=self._topics(words, []))
        begun_us = self.now_us
        try:
            answer = await session.connection.ask(request, 2)
        except Disconnected:
            self._settled(session, words, {}, begun_us)
            raise
        if answer.error_code:
            self._session_refused(session, words, begun_us)
            return
        session.epoch += 1
        parts = [part for topic in answer.responses for part in topic.partitions]
        self._settled(session, words, {part.partition_index: part.error_code for part in parts}, begun_us)

    def _session_refused(self, session: _Session, words: list[_Word], begun_us: int) -> None:
        # The session is checked before anything is acknowledged.
        self._settled(session, words, {word.index: ErrorCode.INVALID_REQUEST for word in words}, begun_us)
        session.begin_anew()

    def _add_unknown(self, begun_us: int) -> None:
        self.history.add(AcquisitionUnknown(self.now_us, begun_us, self.name, self._group))

    def _topics(self, words: list[_Word], asked: list[int]) -> list[AcknowledgeTopic]:
        """The request's partitions: those asked for, and those with acknowledgements."""
        kinds: dict[int, dict[int, int]] = {index: {} for index in asked}
        for word in words:
            kinds.setdefault(word.index, {}).update(dict.fromkeys(word.offsets, word.kind))
        partitions = [AcknowledgePartition(index, list(_batches(kinds[index]))) for index in sorted(kinds)]
        return [AcknowledgeTopic(self._topic_id, partitions)] if partitions else []

    def _settled(self, session: _Session, words: list[_Word], errors: dict[int, int], begun_us: int) -> None:
        """The answers for these acknowledgements have come; none is in `errors` where none came."""
        for word in words:
            error = errors.get(word.index, -1)
            for offset in word.offsets:
                # Whether it was taken or not: the member does not try again.
                session.held.pop((word.index, offset), None)
            if word.kind == GAP:
                session.gaps = [gap for gap in session.gaps if gap[0] != word.index or gap[1] not in word.offsets]
                continue
            self.history.add(
                RecordsSettled(
                    self.now_us,
                    begun_us,
                    self.name,
                    self._group,
                    (self._topic, word.index),
                    word.delivery_count,
                    KINDS[word.kind],
                    word.offsets,
                    error if error in _CERTAIN else -1,
                )
            )


def _batches(kinds: dict[int, int]) -> Iterator[AcknowledgementBatch]:
    """Runs of offsets, each with a list of its kinds or, where they are all alike, with one."""
    run: list[int] = []
    for offset in [*sorted(kinds), -1]:
        if run and offset != run[-1] + 1:
            types = [kinds[each] for each in run]
            yield AcknowledgementBatch(run[0], run[-1], types[:1] if len(set(types)) == 1 else types)
            run = []
        run.append(offset)


def _records_in(payload: Any) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of the records in whole batches, of which some may be other members'."""
    view = memoryview(payload if isinstance(payload, bytes | memoryview) else b"".join(payload or ()))
    for header, batch in iterate_batches(view):
        if not header.is_control:
            for record in iterate_records(batch):
                yield record.offset, record.value or b""
