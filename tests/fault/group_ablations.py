"""Safeguards of groups and committed offsets, each with a way to switch it off, for `simulation_ablations`."""

from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from tests.fault.ablation_search import Patch

from hutong.foundation.waiting.pending import Continuation
from hutong.groups.classic import messages
from hutong.groups.classic.driver import GroupCoordinator
from hutong.groups.classic.entry import ClassicGroupEntry
from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.records import GroupRecord
from hutong.groups.consumer.core import ConsumerGroupCore
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import Partition
from hutong.groups.offsets.offset_log import Change, OffsetLog
from hutong.wire.kafka.error_codes import ErrorCode


def takes_classic_commits_of_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "check_commit", lambda *_: ErrorCode.NONE)


def takes_consumer_commits_of_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda *_: ErrorCode.NONE)


def takes_commits_of_a_process_that_was_replaced(patch: pytest.MonkeyPatch) -> None:
    check = ClassicGroup.check_commit

    def checked(
        group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        current_id = group.member_table.static_ids.get(instance_id or "", member_id)
        return check(group, current_id, instance_id, generation_id, now_ms)

    patch.setattr(ClassicGroup, "check_commit", checked)


def acknowledges_commits_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    write = OffsetLog.write

    def written(log: OffsetLog, group_id: str, changes: Sequence[Change], then: Continuation[None]) -> None:
        write(log, group_id, changes, lambda _: None)
        then(None)

    patch.setattr(OffsetLog, "write", written)


def shows_commits_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    write = OffsetLog.write

    def written(log: OffsetLog, group_id: str, changes: Sequence[Change], then: Continuation[None]) -> None:
        for key, committed in changes:
            log._store.apply(key, committed)
        write(log, group_id, changes, then)

    patch.setattr(OffsetLog, "write", written)


def gives_assignments_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    def persisted(
        coordinator: GroupCoordinator, entry: ClassicGroupEntry, _: GroupRecord, cause: messages.Cause
    ) -> None:
        coordinator._feed(entry, messages.GroupPersisted(cause, coordinator._clock.monotonic_ms()))

    patch.setattr(GroupCoordinator, "_persist", persisted)


def gives_partitions_that_another_member_has(patch: pytest.MonkeyPatch) -> None:
    def released(group: ConsumerGroupCore, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            group.owners.pop(partition, None)

    patch.setattr(ConsumerGroupCore, "_is_free", lambda *_: True)
    patch.setattr(ConsumerGroupCore, "release", released)


def gives_partitions_that_are_still_to_be_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerMember, "held", lambda member: iter([*member.assigned]))


SAFEGUARDS: Final[tuple[tuple[str, Patch], ...]] = (
    ("a classic group takes commits of its generation alone", takes_classic_commits_of_anybody),
    ("a consumer group takes commits of its members alone", takes_consumer_commits_of_anybody),
    ("a static member's former process is fenced", takes_commits_of_a_process_that_was_replaced),
    ("a commit is acknowledged once it is durable", acknowledges_commits_before_they_are_durable),
    ("a commit is shown once it is durable", shows_commits_before_they_are_durable),
    ("an assignment is given once it is durable", gives_assignments_before_they_are_durable),
    ("a partition is free before another member gets it", gives_partitions_that_another_member_has),
    ("a partition is free once its owner has given it up", gives_partitions_that_are_still_to_be_given_up),
)
