"""The share-group coordinator: carries out what the members' machines decide, and is what the node sees of them.

Strategy: a heartbeat is an event of one group; its answer waits only where the group's epoch has changed, until that is
on disk. Members themselves are not stored: after a restart each is told that it is unknown, and joins again under its
own id at once, as Kafka's clients do; what matters, the progress in the partitions, is
(`delivery/driver.py`). One timer per group stands at the earliest session that can end. Who is silent for too long
gives back what it holds; who leaves, by the end of its share session.

Contains no decision about members (`members/machine.py`) or records (`delivery/machine.py`). Belongs to one loop.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.timers import Timer, TimerWheel
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.refusals import GroupRefusals
from hutong.groups.share.delivery.driver import Deliveries, LogPort, StatePort
from hutong.groups.share.members.machine import LEFT_EPOCH, ShareGroup
from hutong.groups.share.members.messages import (
    Answer,
    Event,
    Gone,
    Heartbeat,
    Leave,
    Persist,
    Tick,
    TopicsChanged,
    TopicShape,
    bytes_said,
)
from hutong.groups.share.records import (
    PartitionKey,
    decode_group,
    decode_key,
    encode_group,
    encode_group_key,
)
from hutong.groups.share.settings import GroupRules, ShareSettings
from hutong.wire.kafka.error_codes import ErrorCode

UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
PROTOCOL_TYPE: Final = "share"
NO_ROOM: Final = "Members of this client's groups take up as much memory as they may: let some of them leave."
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
_log = logging.getLogger("hutong.share")


class _Seat:
    """One group, and what the coordinator keeps beside it."""

    __slots__ = ("group", "timer", "timer_at_ms")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.timer: Timer | None = None
        self.timer_at_ms = 0


class ShareCoordinator:
    """All share groups of this node.

    Start: `replay` every record of the state topic, then `start`. A `then` is called exactly once, on the loop.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        logs: LogPort,
        directory: GroupDirectory,
        rules_of: Callable[[str], GroupRules],
        find_topic: Callable[[str], TopicShape | None],
        settings: ShareSettings | None = None,
    ) -> None:
        self.settings = settings or ShareSettings()
        self.rules_of = rules_of
        self.on_gone: Callable[[str, str], None] = lambda _group_id, _member_id: None  # (group, member) is silent
        self.deliveries = Deliveries(
            clock=clock, timers=timers, state=state, logs=logs, rules_of=rules_of, settings=self.settings
        )
        self._clock = clock
        self._timers = timers
        self._state = state
        self._directory = directory
        self._find_topic = find_topic
        self._refusals = GroupRefusals(clock)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._seats: dict[str, _Seat] = {}
        self._stored: dict[str, int] = {}  # group -> epoch; filled by replay, emptied by start

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        decoded = decode_key(key)
        if isinstance(decoded, PartitionKey):
            self.deliveries.replay(decoded, value)
        elif value is None:
            self._stored.pop(decoded, None)
        else:
            self._stored[decoded] = decode_group(value)

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """A record whose append had failed is on disk after all. What members do needs no record to go on from."""
        decoded = decode_key(key)
        if isinstance(decoded, PartitionKey):
            self.deliveries.replay(decoded, value)

    def start(self) -> None:
        """Take the groups up as replayed; those with progress and no record of their own too."""
        for group_id in {*self._stored, *self.deliveries.groups()}:
            if self._directory.claim(group_id, GroupKind.SHARE):
                self._seats[group_id] = _Seat(self._new_group(group_id, self._stored.get(group_id, 0)))
        self._stored.clear()

    def close(self) -> None:
        for seat in self._seats.values():
            if seat.timer is not None:
                seat.timer.cancel()
        self.deliveries.close()

    # ---- membership

    def heartbeat(self, event: Heartbeat, group_id: str, then: Callable[[Answer], None], holder: str = NOBODY) -> None:
        """Let a member be heard; epoch 0 joins, -1 leaves. `holder` is its client, as `Caller.holder`."""
        seat = self._seats.get(group_id)
        is_new = seat is None and event.member_epoch == 0
        if is_new:
            seat = self._new_seat(group_id, holder)
            if seat is None and self._directory.kind(group_id) is None:
                then(Answer(UNAVAILABLE, "There are too many groups."))
                return
            if seat is None:
                then(Answer(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."))
                return
        if seat is None:
            then(Answer(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."))
        elif event.member_epoch == LEFT_EPOCH:
            self._tell(seat, Leave(event.member_id), then)
        elif not self._has_room(seat, event, holder):
            if is_new:
                self._drop(seat)
            then(Answer(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
        else:
            self._tell(seat, event, then)

    def topics_changed(self, topic: str) -> None:
        """A topic has come or gone, or has more partitions."""
        for seat in list(self._seats.values()):
            if seat.group.subscribes_to(topic):
                self._tell(seat, TopicsChanged())

    # ---- administration

    def get(self, group_id: str) -> ShareGroup | None:
        """A group to look at, or None."""
        seat = self._seats.get(group_id)
        return seat.group if seat is not None else None

    def __iter__(self) -> Iterator[ShareGroup]:
        return (seat.group for seat in self._seats.values())

    def __len__(self) -> int:
        return len(self._seats)

    def ensure(self, group_id: str, holder: str = NOBODY) -> bool:
        """Whether there is a share group of that name, made now if the name is free and there is room."""
        return group_id in self._seats or self._new_seat(group_id, holder) is not None

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its progress."""
        seat = self._seats.get(group_id)
        if seat is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if len(seat.group):
            then(ErrorCode.NON_EMPTY_GROUP)
            return

        def ended(error: HutongError | None) -> None:
            if error is None and not len(seat.group) and self._seats.get(group_id) is seat:
                self._drop(seat)
            then(UNAVAILABLE if error is not None else ErrorCode.NONE)

        def forgotten(error: HutongError | None) -> None:
            if error is not None or len(seat.group):
                then(UNAVAILABLE if error is not None else ErrorCode.NON_EMPTY_GROUP)
            else:
                self._state.append_all([(encode_group_key(group_id), None)], ended)

        self.deliveries.forget(self.deliveries.keys_of(group_id), forgotten)

    # ---- inside

    def _new_group(self, group_id: str, epoch: int) -> ShareGroup:
        return ShareGroup(
            group_id,
            epoch,
            members_max=self.settings.max_size,
            session_timeout_ms=lambda: self.rules_of(group_id).session_timeout_ms,
            find_topic=self._find_topic,
        )

    def _has_room(self, seat: _Seat, event: Heartbeat, holder: str) -> bool:
        """Whether a member may say so much; no more than it has said before always passes."""
        if event.topics is None:
            return True
        group_id = seat.group.group_id
        wanted_bytes = bytes_said(event.topics, (event.member_id, event.client_id, event.client_host, event.rack_id))
        more_bytes = wanted_bytes - seat.group.footprint_bytes(event.member_id)
        if more_bytes <= 0 or self._memory.has_room(self._directory.holder(group_id), more_bytes):
            return True
        self._refusals.tell(group_id, holder, "its client's groups take up too much")
        return False

    def _new_seat(self, group_id: str, holder: str) -> _Seat | None:
        """A group that nobody has named before; None if there are too many, or the name is another kind's."""
        if not self._directory.has_room(group_id, holder):
            self._refusals.tell(group_id, holder, f"there are {len(self._directory)} groups")
            return None
        if not self._directory.claim(group_id, GroupKind.SHARE, holder):
            return None
        seat = self._seats[group_id] = _Seat(self._new_group(group_id, 0))
        return seat

    def _drop(self, seat: _Seat) -> None:
        group_id = seat.group.group_id
        del self._seats[group_id]
        self._memory.forget(group_id)
        self._directory.release(group_id, GroupKind.SHARE)

    def _tell(self, seat: _Seat, event: Event, then: Callable[[Answer], None] | None = None) -> None:
        epoch: int | None = None
        answer: Answer | None = None
        gone: list[str] = []
        for instruction in seat.group.handle(event):
            match instruction:
                case Answer():
                    answer = instruction
                case Persist(epoch):
                    pass
                case Gone(member_id):
                    gone.append(member_id)
        group_id = seat.group.group_id
        self._memory.note(group_id, self._directory.holder(group_id), seat.group.memory_bytes)
        self._set_timer(seat)
        if epoch is None:
            if then is not None and answer is not None:
                then(answer)
        else:
            self._persist(seat, epoch, answer, then)
        for member_id in gone:
            self.on_gone(seat.group.group_id, member_id)

    def _persist(self, seat: _Seat, epoch: int, answer: Answer | None, then: Callable[[Answer], None] | None) -> None:
        def persisted(error: HutongError | None) -> None:
            if error is not None:
                _log.error("group %s could not be stored: %s", seat.group.group_id, error)
            if then is not None and answer is not None:
                then(answer if error is None else Answer(UNAVAILABLE, str(error)))

        self._state.append_all([(encode_group_key(seat.group.group_id), encode_group(epoch))], persisted)

    def _set_timer(self, seat: _Seat) -> None:
        """Keep a timer at the earliest session's end; one that stands earlier will find out that it is early."""
        due_ms = seat.group.next_tick_ms()
        if due_ms is None or (seat.timer is not None and seat.timer_at_ms <= due_ms):
            return
        if seat.timer is not None:
            seat.timer.cancel()
        seat.timer_at_ms = due_ms
        seat.timer = self._timers.add(due_ms, lambda: self._timer_fired(seat))

    def _timer_fired(self, seat: _Seat) -> None:
        seat.timer = None
        self._tell(seat, Tick(self._clock.monotonic_ms()))


def state_of(group: ShareGroup) -> str:
    """As Kafka's tools show it."""
    return STABLE if len(group) else EMPTY
