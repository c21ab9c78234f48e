"""A member of a consumer group: what both protocols have in common.

Strategy: a client has several lives. In each it joins its group, reads its partitions from the committed offsets on,
commits at random moments, and in the end leaves or dies without a word. As in real clients heartbeats are a task of
their own, which only notes what the coordinator says. The round of reads does all that follows from it, so partitions
never change while a read or a commit is under way.

Some members stall: neither task does anything for a time, as in a long pause of a garbage collector. They wake up with
partitions that may be another member's by then, and commit.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final

from hutong.testing.simulation.clients.client import RETRIABLE, ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.history import (
    MembershipConfirmed,
    OffsetCommitBegun,
    OffsetCommitRefused,
    OffsetCommitted,
    OffsetSeen,
    PartitionsGivenUp,
    PartitionsOwned,
    ValueRead,
)
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedMember, PlannedReader
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from hutong.wire.kafka.error_codes import ErrorCode

REFUSALS: Final = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Answers of the group to a commit that has no effect. After any other error it may have one."""
_WAITS: Final = (ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNRELEASED_INSTANCE_ID)
"""Answers that ask for patience with a transaction, or with a process before this one."""
_FETCH_WAIT_MS: Final = 100
_SECOND_US: Final = 1_000_000


class SimGroupMember(KafkaClient, ABC):
    """One program that reads a topic with its group. `generation` is the member epoch in the protocol of KIP-848."""

    commit_version: ClassVar[int]

    def __init__(self, context: ClientContext, plan: PlannedMember) -> None:
        super().__init__(context)
        self.plan = plan
        self.instance_id = plan.instance or None
        self.member_id = ""
        self.generation = -1
        self.topic_id = b""
        self.partitions_total = 0
        self.owned: tuple[Place, ...] = ()
        self.is_lost = False  # the group has removed this member
        self.is_fenced = False  # another process has its instance id: it must end
        self.beat_interval_s = 0.0
        self._positions: dict[Place, int] = {}  # of partitions whose committed offset is known
        self._committed: dict[Place, int] = {}
        self._readers: dict[Place, SimReader] = {}
        self._sessions: dict[Place, int] = {}
        self._sessions_total = 0
        self._commits_total = 0
        self._stalled_until_us = 0
        self._heard_us = 0
        self._has_finished = False

    # -- of each protocol

    @abstractmethod
    def begin_life(self) -> None:
        """Become a process that has never heard of the group."""

    @abstractmethod
    async def settle(self) -> bool:
        """Join the group, or do what it asks for. False while there is more to do before partitions may be read."""

    @abstractmethod
    async def beat(self) -> None:
        """Send one heartbeat. Raises Disconnected."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group. Raises Disconnected."""

    @abstractmethod
    def refused(self, error: int) -> None:
        """Note what an error of the group means for this member."""

    # -- lives

    async def run(self) -> None:
        await self._look_up_topic()
        while not self.is_stopping:
            await self._live()
            await asyncio.sleep(self.random.choice((0.1, 2, 8)) * self.random.random())

    async def _live(self) -> None:
        process = self._host.process
        assert process is not None
        self.is_lost = self.is_fenced = False
        self.begin_life()
        ends_us = self.now_us + self.random.choice((3, 10, 200)) * _SECOND_US
        beats = process.run(self._beats)
        while not self._is_over(ends_us):
            await self._round()
        # Again and again: `wait_for` of Python 3.11 drops a cancellation that comes together with its answer.
        while not beats.done():
            beats.cancel()
            await asyncio.wait([beats], timeout=0.01)
        await self._end_life()

    def _is_over(self, ends_us: int) -> bool:
        if self.is_fenced:
            return True
        # In the quiet time each member has to get into a stable group once more, and to commit what it has read.
        return self._has_finished if self.is_stopping else self.now_us >= ends_us

    async def _end_life(self) -> None:
        # Static members go without a word: their place waits for them.
        if not self.is_fenced and self.random.random() < (0.2 if self.plan.instance else 0.5):
            with contextlib.suppress(Disconnected):
                if self.random.random() < 0.5:
                    await self.commit()
                await self.leave()
        self.give_up()
        for client in (self, *self._readers.values()):
            client.close()

    async def _round(self) -> None:
        await self._stall()
        if not await self.settle() or not await self._find_positions():
            return
        for place in self.owned:
            await self._read(place)
        if self.random.random() < 0.05:
            await self._look_at_offsets()
        if self.is_stopping:
            self._has_finished = await self.commit() and not self.is_lost
        elif self.random.random() < 0.2:
            await self.commit()
        await self.rest(self.plan.pause_ms)

    async def _stall(self) -> None:
        if self.plan.may_stall and not self.is_stopping and self.random.random() < 0.01:
            self._stalled_until_us = self.now_us + self.random.randrange(12 * _SECOND_US)
        await self._sleep_while_stalled()

    async def _sleep_while_stalled(self) -> None:
        left_us = self._stalled_until_us - self.now_us
        if left_us > 0:
            await asyncio.sleep(left_us / _SECOND_US)

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(self.beat_interval_s * (0.8 + 0.4 * self.random.random()))
            await self._sleep_while_stalled()
            if self.generation <= 0 or self.is_lost:
                continue
            # librdkafka gives its partitions up by itself after a session without an answer; the Java client does not.
            if self.plan.notices_silence and self.now_us - self._heard_us > self.plan.session_ms * 1_000:
                self.is_lost = True
                continue
            try:
                await self.beat()
            except Disconnected:
                await self.pause()

    # -- what the group says

    def heard(self) -> None:
        """The coordinator has renewed this member's session."""
        self._heard_us = self.now_us
        self.went_well()

    def confirmed(self, begun_us: int, places: Sequence[Place]) -> None:
        """A heartbeat was accepted while the member had these partitions."""
        self.heard()
        event = MembershipConfirmed(self.now_us, begun_us, self.name, self.plan.group, self.generation, tuple(places))
        self.history.add(event)

    def own(self, places: Sequence[Place], begun_us: int) -> None:
        """Own exactly these from now on; `begun_us` is when the request began that gave them."""
        for place in places:
            if place not in self.owned:
                self._sessions_total += 1
                self._sessions[place] = self._sessions_total
        self.owned = tuple(sorted(places))
        self._positions = {place: at for place, at in self._positions.items() if place in self.owned}
        self._committed = {place: at for place, at in self._committed.items() if place in self.owned}
        plan = self.plan
        event = PartitionsOwned(
            self.now_us, begun_us, self.name, plan.instance, plan.group, self.generation, self.owned
        )
        self.history.add(event)

    def give_up(self) -> None:
        """Own nothing from now on."""
        if self.owned:
            self.history.add(PartitionsGivenUp(self.now_us, self.name, self.plan.group))
        self.owned = ()
        self._positions.clear()
        self._committed.clear()

    # -- offsets and records

    async def commit(self) -> bool:
        """Commit what was read. False where it was refused, or no answer came."""
        offsets = [
            (place, at)
            for place, at in self._positions.items()
            if at != self._committed.get(place) or self.random.random() < 0.05
        ]
        if not offsets:
            return True
        self._commits_total += 1
        number, group = self._commits_total, self.plan.group
        for place, offset in offsets:
            self.history.add(OffsetCommitBegun(self.now_us, self.name, group, number, place, offset))
        partitions = [OffsetCommitRequestPartition(place[1], at, -1, "") for place, at in offsets]
        request = OffsetCommitRequest(
            group,
            self.generation,
            self.member_id,
            self.instance_id,
            topics=[OffsetCommitRequestTopic(self.plan.topic, partitions=partitions)],
        )
        try:
            response = await self.ask(request, self.commit_version)
        except Disconnected:
            await self.pause()
            return False
        errors = {part.partition_index: part.error_code for part in response.topics[0].partitions}
        return await self._committed_with(number, offsets, errors)

    async def _committed_with(self, number: int, offsets: list[tuple[Place, int]], errors: dict[int, int]) -> bool:
        group = self.plan.group
        for place, offset in offsets:
            error = errors[place[1]]
            if not error:
                self._committed[place] = offset
                self.history.add(OffsetCommitted(self.now_us, self.name, group, number, place, offset))
            elif error in REFUSALS:
                self.history.add(OffsetCommitRefused(self.now_us, self.name, group, number, place, offset, error))
        refusals = [error for error in errors.values() if error]
        if refusals:
            self.refused(refusals[0])
            await self.pause()
        return not refusals

    async def _find_positions(self) -> bool:
        """Ask for the committed offsets of new partitions. False while some are not known."""
        wanted = [place for place in self.owned if place not in self._positions]
        if not wanted:
            return True
        member = (None, -1) if self.commit_version < 9 else (self.member_id, self.generation)
        try:
            error, seen = await see_offsets(self, self.plan.group, self.plan.topic, wanted, member)
        except Disconnected:
            error, seen = ErrorCode.NETWORK_EXCEPTION, []
        for place, offset in seen:
            self._positions[place] = max(0, offset)
            self._committed[place] = offset
        if error:
            self.refused(error)
        if len(seen) < len(wanted):
            await self.pause()
        return len(seen) == len(wanted)

    async def _look_at_offsets(self) -> None:
        """Ask for the offsets of all partitions, as an administrator does, while others commit."""
        places = [(self.plan.topic, index) for index in range(self.partitions_total)]
        with contextlib.suppress(Disconnected):
            await see_offsets(self, self.plan.group, self.plan.topic, places)

    async def _read(self, place: Place) -> None:
        reader = self._readers.get(place)
        if reader is None:
            topic, index = place
            plan = PlannedReader(name=self.name, topic=topic, partition=index, is_committed=self.plan.is_committed)
            reader = self._readers[place] = SimReader(self.context, plan)
        reader.position = self._positions[place]
        session = self._sessions[place]
        for record in await reader.fetch(_FETCH_WAIT_MS):
            read = (session, place, record.offset, record.value or b"", reader.is_committed)
            self.history.add(ValueRead(self.now_us, self.name, *read))
        self._positions[place] = reader.position

    # -- connections and topics

    def dial_guard(self) -> AbstractAsyncContextManager[object]:
        # Two tasks ask: both shall have one connection.
        return asyncio.Lock()

    async def _look_up_topic(self) -> None:
        request = MetadataRequest([MetadataRequestTopic(name=self.plan.topic)], allow_auto_topic_creation=False)
        response = await self.ask_until_done(request, 12, lambda answer: not answer.topics[0].error_code)
        self.topic_id = response.topics[0].topic_id
        self.partitions_total = len(response.topics[0].partitions)


async def see_offsets(
    client: KafkaClient, group: str, topic: str, places: Sequence[Place], member: tuple[str | None, int] = (None, -1)
) -> tuple[int, list[tuple[Place, int]]]:
    """(error, committed offsets) of a group, which go into the history; -1 for none. Raises Disconnected.

    `member` is the asking member's id and epoch (KIP-848).
    """
    begun_us = client.now_us
    topics = [OffsetFetchRequestTopics(topic, partition_indexes=[index for _, index in places])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, *member, topics)], require_stable=True)
    answer = (await client.ask(request, 9)).groups[0]
    if answer.error_code:
        return answer.error_code, []
    # An open transaction may commit an offset: asked again later (KIP-447).
    found = [part for part in answer.topics[0].partitions if not part.error_code]
    seen = [((topic, part.partition_index), part.committed_offset) for part in found]
    for place, offset in seen:
        client.history.add(OffsetSeen(client.now_us, begun_us, client.name, group, place, offset))
    return ErrorCode.NONE, seen


async def see_all_offsets(client: KafkaClient, group: str, topic: str, partitions: int) -> None:
    """Ask for the committed offsets of a topic until there is an answer for each partition."""
    places = [(topic, index) for index in range(partitions)]
    while places:
        try:
            _, seen = await see_offsets(client, group, topic, places)
        except Disconnected:
            seen = []
        found = [place for place, _ in seen]
        places = [place for place in places if place not in found]
        if places:
            await client.pause()


def is_passing(error: int) -> bool:
    """An answer after which the same request is sent again."""
    return error in RETRIABLE or error in _WAITS
