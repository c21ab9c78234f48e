"""A coordinator with its surroundings: a clock, a timer wheel and a state topic that do what the test says."""

import itertools

from tests.unit.foundation.fake_state import FakeState

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.classic.driver import GroupCoordinator
from hutong.groups.classic.messages import JoinReply, SyncReply
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.groups.consumer.driver import ConsumerGroupCoordinator
from hutong.groups.consumer.records import RECORDS
from hutong.groups.consumer.settings import ConsumerGroupSettings
from hutong.groups.directory import GroupDirectory
from hutong.groups.offsets.coordinator import OffsetCoordinator
from hutong.groups.offsets.offset_log import Change
from hutong.groups.offsets.records import StoredOffset
from hutong.groups.record_keys import GROUP_KEY_VERSION, OffsetKey
from hutong.groups.requests import GroupCaller
from hutong.groups.settings import GroupSettings
from hutong.groups.streams.driver import StreamsGroupCoordinator
from hutong.groups.streams.records import RECORDS as STREAMS_RECORDS
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from hutong.wire.kafka.consumer_protocol import ConsumerProtocolSubscription, encode
from hutong.wire.kafka.error_codes import ErrorCode

SETTINGS = GroupSettings(initial_rebalance_delay_ms=100, offsets_retention_ms=3_600_000)
CONSUMER_SETTINGS = ConsumerGroupSettings(times=GroupTimes(10_000, 500, 0))
STREAMS_SETTINGS = StreamsGroupSettings(
    rules=StreamsRules(10_000, 5_000, 0, initial_rebalance_delay_ms=0), members_max=10
)
RETENTION_MS = SETTINGS.offsets_retention_ms
SESSION_MS = 10_000
SUBSCRIPTION = encode(ConsumerProtocolSubscription(["orders"]), 1)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


class Stage:
    """A coordinator with its surroundings. `restart` is a crash: only what is durable is there afterwards."""

    def __init__(self, settings: GroupSettings = SETTINGS) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.state = FakeState()
        self.topics = {"orders", "other"}
        self._start()

    def _start(self) -> None:
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        numbers = itertools.count(1)
        self.directory = GroupDirectory(self.settings.groups_max)
        self.offsets = OffsetCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=self.state,
            directory=self.directory,
            settings=self.settings,
            topic_exists=lambda name, _index: name in self.topics,
        )
        self.groups = GroupCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=self.state,
            random_bytes=lambda count: next(numbers).to_bytes(count, "big"),
            directory=self.directory,
            offsets=self.offsets,
        )
        self.consumer_groups = ConsumerGroupCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=self.state,
            random_bytes=lambda count: next(numbers).to_bytes(count, "big"),
            directory=self.directory,
            offsets=self.offsets,
            classic=self.groups,
            settings=CONSUMER_SETTINGS,
        )
        self.streams_groups = StreamsGroupCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=self.state,
            directory=self.directory,
            offsets=self.offsets,
            classic=self.groups,
            catalogue=self.consumer_groups.catalogue,
            settings=STREAMS_SETTINGS,
        )
        for key, value in self.state.durable:
            self._replay(key, value)
        for name in self.topics:
            self.consumer_groups.topic_changed(TopicFacts(name, topic_id(name), 4), exists=True)
        self.consumer_groups.start()
        self.streams_groups.start()
        self.groups.start()
        self.offsets.start()

    def _replay(self, key: bytes, value: bytes | None) -> None:
        version = int.from_bytes(key[:2], "big")
        if version in RECORDS.key_versions:
            self.consumer_groups.replay(key, value)
        elif version in STREAMS_RECORDS.key_versions:
            self.streams_groups.replay(key, value)
        elif version == GROUP_KEY_VERSION:
            self.groups.replay(key, value)
        else:
            self.offsets.replay(key, value)

    def restart(self) -> None:
        self.state.on_their_way.clear()
        self._start()

    def pass_time(self, milliseconds: int) -> None:
        until_ms = self.clock.monotonic_ms() + milliseconds
        while (due_ms := self.wheel.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.clock.advance(max(0, due_ms - self.clock.monotonic_ms()))
            self.wheel.advance(self.clock.monotonic_ms())
        self.clock.advance(until_ms - self.clock.monotonic_ms())

    def join(self, member_id: str = "", *, group_id: str = "g", owner: Owner | None = None) -> "list[JoinReply]":
        """The replies so far: none while the request waits."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
        )
        replies: list[JoinReply] = []
        self.groups.join(
            request, GroupCaller(9, "app", "/127.0.0.1", Owner() if owner is None else owner), replies.append
        )
        return replies

    def sync(self, joined: JoinReply, group_id: str = "g", share: bytes = b"share") -> list[SyncReply]:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id, share) for member_id, _, _ in joined.members],
        )
        replies: list[SyncReply] = []
        self.groups.sync(request, GroupCaller(5, "app", "/127.0.0.1", Owner()), replies.append)
        return replies

    def heartbeat(self, joined: JoinReply, group_id: str = "g") -> ErrorCode:
        return self.groups.heartbeat(HeartbeatRequest(group_id, joined.generation_id, joined.member_id, None))

    def member(self, group_id: str = "g", share: bytes = b"share") -> JoinReply:
        """Bring one member to a stable generation."""
        (offered,) = self.join(group_id=group_id)
        replies = self.join(offered.member_id, group_id=group_id)
        self.pass_time(300)
        (synced,) = self.sync(replies[0], group_id, share)
        assert synced.error is ErrorCode.NONE
        return replies[0]

    def commit(self, *changes: Change, group_id: str = "g", by: JoinReply | None = None) -> list[ErrorCode]:
        member_id, generation_id = (by.member_id, by.generation_id) if by is not None else ("", -1)
        error = self.groups.commit_error(group_id, member_id, None, generation_id)
        codes: list[ErrorCode] = []
        if error is ErrorCode.NONE:
            self.groups.commit(group_id, changes, codes.append)
        else:
            codes.append(error)
        return codes

    def change(self, offset: int, topic: str = "orders", group_id: str = "g") -> Change:
        committed = StoredOffset(offset, 4, "a note", self.clock.wall_ms())
        return OffsetKey(group_id, topic, 0), committed

    def offset(self, topic: str = "orders", group_id: str = "g") -> int | None:
        found = self.offsets.table.get(group_id, topic, 0)
        return found.offset if found is not None else None

    def delete(self, group_id: str = "g") -> list[ErrorCode]:
        codes: list[ErrorCode] = []
        self.groups.delete(group_id, codes.append)
        return codes
