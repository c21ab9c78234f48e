"""The memory of members of consumer and share groups has a bound in bytes; groups continue at it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.foundation.fake_state import FakeState
from tests.unit.groups import stage as stages
from tests.unit.groups.stage import SETTINGS, Stage, topic_id

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.groups.consumer.messages import HeartbeatReply
from hutong.groups.directory import GroupDirectory
from hutong.groups.requests import GroupCaller
from hutong.groups.share.configs import ShareRules
from hutong.groups.share.delivery.driver import Deliveries
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions
from hutong.groups.share.driver import ShareCoordinator
from hutong.groups.share.members.messages import ShareHeartbeat, ShareReply, TopicShape
from hutong.groups.share.settings import ShareSettings
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

BYTES_MAX = 100_000
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
MANY = [f"topic-{number}" for number in range(100)]


class Consumers:
    """Members of consumer groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bytes_max: int = BYTES_MAX) -> None:
        monkeypatch.setattr(stages, "CONSUMER_SETTINGS", replace(stages.CONSUMER_SETTINGS, groups_bytes_max=bytes_max))
        self.stage = Stage(SETTINGS)

    def beat(
        self,
        group_id: str,
        epoch: int = 0,
        topics: Sequence[str] | None = ("orders",),
        holder: str = "flood",
        regex: str | None = None,
    ) -> HeartbeatReply:
        names = None if topics is None else list(topics)
        request = ConsumerGroupHeartbeatRequest(group_id, "m", epoch, None, None, -1, names, regex)
        if epoch == 0:
            request.rebalance_timeout_ms, request.topic_partitions = 1_000, []
        replies: list[HeartbeatReply] = []
        caller = GroupCaller(1, "app", "/10.0.0.1", Owner(), holder)
        self.stage.consumer_groups.heartbeat(request, caller, replies.append)
        return replies[0]

    @property
    def held_bytes(self) -> int:
        return self.stage.consumer_groups._memory.held_bytes


def test_consumer_groups_of_one_client_leave_memory_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = Consumers(monkeypatch)
    codes = [consumers.beat(f"g{number}", topics=MANY).error for number in range(10)]
    fitting = codes.count(ErrorCode.NONE)
    assert 0 < fitting < 10
    assert codes == [ErrorCode.NONE] * fitting + [FULL] * (10 - fitting)
    assert len(consumers.stage.consumer_groups) == fitting, "a refused group is not there"
    assert consumers.beat("other", holder="other").error is ErrorCode.NONE
    assert consumers.beat("g0", 1, None).error is ErrorCode.NONE
    assert consumers.beat("g0", 1, MANY).error is ErrorCode.NONE, "what says no more than before passes"
    assert consumers.beat("g0", 1, [*MANY, *(f"x{number}" for number in range(100))]).error is FULL
    assert consumers.held_bytes <= BYTES_MAX
    for number in range(fitting):
        assert consumers.beat(f"g{number}", -1, None).error is ErrorCode.NONE
    assert consumers.beat("again", topics=MANY).error is ErrorCode.NONE, "what left is free"


def test_patterns_and_assignments_of_consumer_groups_count(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = Consumers(monkeypatch, 500_000)
    assert consumers.beat("g0", topics=None, regex="or.*").error is ErrorCode.NONE
    assert consumers.beat("g1", topics=None, regex="ot.*").error is FULL
    assert consumers.beat("g0", -1, None).error is ErrorCode.NONE
    before = consumers.held_bytes
    assert consumers.beat("g2", topics=["orders"]).error is ErrorCode.NONE
    with_partitions = consumers.held_bytes - before
    assert consumers.beat("g3", topics=["absent"]).error is ErrorCode.NONE
    assert with_partitions > consumers.held_bytes - before - with_partitions
    consumers.stage.restart()
    held = consumers.held_bytes
    assert held >= with_partitions, "taken up again"
    consumers.stage.pass_time(60_000)
    assert consumers.held_bytes == 0, "sessions end"


class Sharers:
    """Members of share groups."""

    def __init__(self) -> None:
        settings = ShareSettings(groups_bytes_max=BYTES_MAX)
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        rules_of = ShareRules(settings, lambda _group_id: {})
        versions = ProgressVersions(bytes)
        progress = KeptProgress(FakeState(), versions)
        self.groups = ShareCoordinator(
            clock=self.clock,
            timers=self.wheel,
            state=FakeState(),
            progress=progress,
            deliveries=Deliveries(
                clock=self.clock,
                timers=self.wheel,
                progress=progress,
                versions=versions,
                logs=_NoLogs(),
                rules_of=rules_of,
                settings=settings,
            ),
            directory=GroupDirectory(),
            rules_of=rules_of,
            find_topic=lambda name: TopicShape(topic_id(name), 4) if name == "orders" else None,
            settings=settings,
        )

    def beat(
        self, group_id: str, epoch: int = 0, topics: Sequence[str] | None = MANY, holder: str = "flood"
    ) -> ShareReply:
        answers: list[ShareReply] = []
        event = ShareHeartbeat("m", epoch, self.clock.monotonic_ms(), "app", "/10.0.0.1", topics)
        self.groups.heartbeat(event, group_id, answers.append, holder)
        return answers[0]


class _NoLogs:
    def first_offset(self, *_arguments: object) -> None:
        raise AssertionError("nobody reads here")

    start_offset = bury = first_offset


def test_share_groups_of_one_client_leave_memory_to_others() -> None:
    sharers = Sharers()
    codes = [sharers.beat(f"g{number}").error for number in range(12)]
    fitting = codes.count(ErrorCode.NONE)
    assert 0 < fitting < 12
    assert codes == [ErrorCode.NONE] * fitting + [FULL] * (12 - fitting)
    assert len(sharers.groups) == fitting, "a refused group is not there"
    assert sharers.beat("other", topics=["orders"], holder="other").error is ErrorCode.NONE
    assert sharers.beat("g0", 1, None).error is ErrorCode.NONE
    assert sharers.beat("g0", 1).error is ErrorCode.NONE, "what says no more than before passes"
    for group_id in ("g0", "g1"):
        assert sharers.beat(group_id, -1, None).error is ErrorCode.NONE
    assert sharers.beat("again").error is ErrorCode.NONE, "what left is free"
    assert sharers.groups._memory.held_bytes <= BYTES_MAX
