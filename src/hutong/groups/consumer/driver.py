"""The coordinator of consumer groups (KIP-848): carries out what groups decide, and is what the node sees of them.

Strategy: each request becomes an event of one group; the records that the event touched are appended together, and its
answer leaves when they, and all that the group had appended before, are durable: nobody is told what a crash could
take back. One timer per group stands at the earliest thing that can lapse. Committed offsets lie with those of classic
groups (`groups.driver`), whose table and log this one shares.

Contains no decision about membership (`machine.py`) or input (`requests.py`). Belongs to one loop.
"""

import itertools
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.fair import FairWaits
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.classic.messages import GroupRecord, JoinReply, SyncReply
from hutong.groups.consumer.assignment.catalogue import Catalogue, TopicFacts
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.members.member import PATTERN_BYTES, bytes_said
from hutong.groups.consumer.messages import (
    JOINING,
    Answer,
    Event,
    HeartbeatReply,
    Note,
    RecordKey,
    Removal,
    Remove,
    RemoveReply,
    Reply,
    Store,
    StoredGroup,
    StoreFailed,
    Tick,
    TopicsChanged,
)
from hutong.groups.consumer.records import encode_key, encode_value, replay
from hutong.groups.consumer.requests import bytes_of_heartbeat, heartbeat_error, heartbeat_event
from hutong.groups.consumer.settings import ConsumerGroupSettings, GroupTimes, MigrationPolicy
from hutong.groups.consumer.states import ConsumerGroupState
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.offset_log import Entry, OffsetLog, StatePort
from hutong.groups.offsets.records import GroupKey, encode_group_key
from hutong.groups.offsets.store import OffsetStore, Usage
from hutong.groups.peer import Neighbour
from hutong.groups.refusals import GroupRefusals
from hutong.groups.requests import Caller, Stamp, join_error, join_event, sync_error, sync_event
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

# A client retries this code after asking for the coordinator again: right for whatever is wrong here and may pass.
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
MATCH_PAUSE_MS: Final = 30  # between two stretches of matching names: a quarter of the loop's time at worst
NO_ROOM: Final = "Members of this client's groups take up as much memory as they may: let some of them leave."
_log = logging.getLogger("hutong.groups")


class ClassicGroups(Protocol):
    """What this coordinator needs of classic groups: their offsets, and empty groups that change their kind."""

    directory: GroupDirectory
    offsets: OffsetStore
    offset_log: OffsetLog
    settings: GroupSettings
    neighbours: list[Neighbour]

    def give_up(self, group_id: str) -> bool:
        """Let go of a group that has no members, so that it can become one of another kind; False if it has."""
        ...

    def portrait(self, group_id: str) -> GroupRecord | None:
        """A stable group as it would be stored; None while it is not stable."""
        ...

    def hand_over(self, group_id: str) -> None:
        """Forget a stable group, members and all: it goes on as one of another kind."""
        ...


@dataclass(slots=True)
class _Seat:
    """One group, and what the coordinator keeps beside it."""

    group: ConsumerGroup
    timer: Timer | None = None
    timer_at_ms: int = 0
    appends: int = 0  # given to the log
    durable: int = 0  # of those, on disk or failed; they end in the order of appends
    failed: int = 0  # the last of those that failed
    held: deque[tuple[int, int, Reply]] = field(default_factory=deque)  # (until that many are durable, ticket, reply)
    empty_since_ms: int | None = None  # wall time; None while it has members
    extra: list[Entry] = field(default_factory=list)  # to be appended with the next records


class ConsumerGroupCoordinator:
    """All consumer groups of this node.

    Start: `replay` every record of the state topic, tell every topic by `topic_changed`, then `start`, before classic
    groups do. A `then` is called exactly once, on the loop; errors are values, never raised.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        random_bytes: Callable[[int], bytes],
        classic: ClassicGroups,
        settings: ConsumerGroupSettings | None = None,
        times_of: Callable[[str], GroupTimes] | None = None,
    ) -> None:
        self.settings = settings or ConsumerGroupSettings()
        self.catalogue = Catalogue()
        self.rebalances_total = 0
        self._clock = clock
        self._timers = timers
        self._state = state
        self._random_bytes = random_bytes
        self._classic = classic
        self._refusals = GroupRefusals(clock)
        self._memory = GroupMemory("groups_bytes_max", self.settings.groups_bytes_max)
        self._times_of = times_of or (lambda _group_id: self.settings.times)
        self._seats: dict[str, _Seat] = {}
        self._stored: dict[str, StoredGroup] = {}  # filled by replay, emptied by start
        self._waits: WaitTable[Reply] = WaitTable("consumer group waits", timers, self.settings.waits_max)
        self._fair_waits = FairWaits(self._waits, self.settings.waits_max)
        self._tickets = itertools.count(1)
        self._match_timer: Timer | None = None
        classic.neighbours.append(self)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        replay(self._stored, key, value)

    def start(self) -> None:
        """Take the groups up as replayed: members have one session time-out from now to be heard again."""
        now_ms = self._clock.monotonic_ms()
        for group_id, stored in self._stored.items():
            self._classic.directory.claim(group_id, GroupKind.CONSUMER)
            times = self._times_of(group_id)
            group = ConsumerGroup.restored(group_id, self.catalogue, self.settings, times, stored, now_ms)
            seat = self._seats[group_id] = _Seat(group)
            seat.empty_since_ms = None if group.members else self._clock.wall_ms()
            self._tell(seat, TopicsChanged(now_ms))
        self._stored.clear()

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        if self._match_timer is not None:
            self._match_timer.cancel()
        for seat in self._seats.values():
            if seat.timer is not None:
                seat.timer.cancel()
        self._waits.close(OwnerGone("the node is stopping"))

    # ---- membership

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, then: Callable[[HeartbeatReply], None]
    ) -> None:
        refusal = heartbeat_error(request, caller.api_version, self.settings)
        if refusal is not None:
            then(refusal)
            return
        seat = self._seat_for(request.group_id, caller, may_create=request.member_epoch == JOINING)
        if isinstance(seat, HeartbeatReply):
            then(seat)
            return
        regex = request.subscribed_topic_regex
        wanted_bytes = bytes_of_heartbeat(request)
        wanted_bytes += PATTERN_BYTES if regex and not seat.group.subscriptions.holds(regex) else 0
        if request.member_epoch >= JOINING and not self._has_room(
            seat, request.member_id, request.instance_id, wanted_bytes, caller
        ):
            self._tidy(seat)
            then(HeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
            return
        otherwise = HeartbeatReply(UNAVAILABLE)
        ticket = self._park(caller, then, otherwise)
        if ticket is not None:
            new_id = str(uuid.UUID(bytes=self._random_bytes(16), version=4))
            self._tell(seat, heartbeat_event(request, caller, ticket, self._clock.monotonic_ms(), new_id))
        self._tidy(seat)

    def remove(self, group_id: str, removals: Sequence[Removal], then: Callable[[RemoveReply], None]) -> None:
        """Members that are taken out by an administrator (LeaveGroup)."""
        seat = self._seats.get(group_id)
        otherwise = RemoveReply((UNAVAILABLE,) * len(removals))
        if seat is None:
            then(RemoveReply((ErrorCode.UNKNOWN_MEMBER_ID,) * len(removals)))
            return
        ticket = self._park(None, then, otherwise)
        if ticket is not None:
            self._tell(seat, Remove(ticket, self._clock.monotonic_ms(), tuple(removals)))

    # ---- members that speak the classic protocol

    def has_members(self, group_id: str) -> bool:
        """Whether this is a consumer group that somebody is in: who joins it by the classic protocol joins here."""
        seat = self._seats.get(group_id)
        return seat is not None and bool(seat.group.members)

    def join(self, request: JoinGroupRequest, caller: Caller, then: Callable[[JoinReply], None]) -> None:
        """JoinGroup of a group that `has_members`."""
        error = join_error(request, self._classic.settings)
        if error is not ErrorCode.NONE:
            then(JoinReply(error, request.member_id))
            return
        wanted_bytes = bytes_said((), None, (), [(each.name, each.metadata) for each in request.protocols])
        seat, instance_id = self._seats[request.group_id], request.group_instance_id
        if not self._has_room(seat, request.member_id, instance_id, wanted_bytes, caller):
            then(JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id))
            return
        ticket = self._park(caller, then, JoinReply(UNAVAILABLE, request.member_id))
        if ticket is not None:
            unique = str(uuid.UUID(bytes=self._random_bytes(16), version=4))
            stamp = Stamp(ticket, self._clock.monotonic_ms())
            self._tell(self._seats[request.group_id], join_event(request, caller, stamp, unique))

    def sync(self, request: SyncGroupRequest, caller: Caller, then: Callable[[SyncReply], None]) -> None:
        """SyncGroup of a group that `has_members`."""
        error = sync_error(request, caller.api_version, self._classic.settings)
        if error is not ErrorCode.NONE:
            then(SyncReply(error))
            return
        ticket = self._park(caller, then, SyncReply(UNAVAILABLE))
        if ticket is not None:
            stamp = Stamp(ticket, self._clock.monotonic_ms())
            self._tell(self._seats[request.group_id], sync_event(request, stamp))

    def heartbeat_classic(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat of a group that `has_members`."""
        seat = self._seats[request.group_id]
        now_ms = self._clock.monotonic_ms()
        asked = (request.member_id, request.group_instance_id, request.generation_id)
        error = classic_members.heartbeat(seat.group, *asked, now_ms)
        self._set_timer(seat)
        return error

    # ---- offsets

    def commit_error(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Iterable[tuple[bytes, int]],
        api_version: int,
    ) -> ErrorCode:
        """Whether this caller may commit now. Commit by `GroupCoordinator.commit`, in the same turn."""
        group = self.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return group.check_commit(member_id, epoch, partitions, api_version)

    def offset_fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        group = self.get(group_id)
        return ErrorCode.NONE if group is None else group.check_offset_fetch(member_id, epoch)

    # ---- topics and settings

    def topic_changed(self, topic: TopicFacts, exists: bool) -> None:
        """A topic came, went or has another number of partitions."""
        concerned = self._readers(topic.name)
        has_changed = self.catalogue.put(topic) if exists else self.catalogue.remove(topic.name)
        if not has_changed:
            return
        now_ms = self._clock.monotonic_ms()
        for seat in {id(seat): seat for seat in [*concerned, *self._readers(topic.name)]}.values():
            self._tell(seat, TopicsChanged(now_ms))
        self._match_soon()

    def settings_changed(self, group_id: str) -> None:
        """The group's own settings were altered."""
        seat = self._seats.get(group_id)
        if seat is not None:
            seat.group.times = self._times_of(group_id)

    # ---- administration

    def get(self, group_id: str) -> ConsumerGroup | None:
        """A group to look at, or None."""
        seat = self._seats.get(group_id)
        return seat.group if seat is not None else None

    def kind(self, group_id: str) -> GroupKind | None:
        """Whose this name is."""
        return self._classic.directory.kind(group_id)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        """Every group, to look at."""
        return (seat.group for seat in self._seats.values())

    def __len__(self) -> int:
        return len(self._seats)

    def enforce_retention(self, now_ms: int) -> None:
        """Forget old offsets, and groups that have neither members nor offsets any more. `now_ms` is wall time."""
        offsets, retention_ms = self._classic.offsets, self._classic.settings.offsets_retention_ms
        for seat in list(self._seats.values()):
            group_id = seat.group.group_id
            old = offsets.expired(group_id, _usage(seat), now_ms, retention_ms)
            if not seat.group.members and len(old) == len(offsets.keys_of_group(group_id)):
                self._end(seat, _ignore)
            elif old:
                self._classic.offset_log.forget(group_id, old, _ignore)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its offsets."""
        seat = self._seats.get(group_id)
        if seat is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
        elif seat.group.state is not ConsumerGroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._end(seat, then)

    def give_up(self, group_id: str) -> bool:
        """Let go of a group without members, which keeps its offsets, so that it can become a classic one."""
        seat = self._seats.get(group_id)
        if seat is None or seat.group.state is not ConsumerGroupState.EMPTY:
            return False
        self._retire(seat, _ignore)
        return True

    # ---- inside

    def _seat_for(self, group_id: str, caller: Caller, may_create: bool) -> _Seat | HeartbeatReply:
        seat = self._seats.get(group_id)
        if seat is not None:
            return seat
        directory = self._classic.directory
        kind = directory.kind(group_id)
        not_here = HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not may_create:
            return not_here
        if not directory.has_room(group_id, caller.holder):
            self._refusals.tell(group_id, caller.holder, f"there are {len(directory)} groups")
            return HeartbeatReply(UNAVAILABLE, "There are too many groups.")
        if kind is GroupKind.CLASSIC and not self._classic.give_up(group_id):
            return self._upgrade(group_id, caller.holder)
        if not directory.claim(group_id, GroupKind.CONSUMER, caller.holder):
            return HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        group = ConsumerGroup(group_id, self.catalogue, self.settings, self._times_of(group_id))
        seat = self._seats[group_id] = _Seat(group)
        return seat

    def _has_room(
        self, seat: _Seat, member_id: str, instance_id: str | None, wanted_bytes: int, caller: Caller
    ) -> bool:
        """Whether a member may say so much; no more than it, or the instance before it, has said always passes."""
        group_id = seat.group.group_id
        known_id = seat.group.static_ids.get(instance_id or "", member_id)
        more_bytes = wanted_bytes - seat.group.footprint_bytes(known_id)
        if more_bytes <= 0 or self._memory.has_room(self._classic.directory.holder(group_id), more_bytes):
            return True
        self._refusals.tell(group_id, caller.holder, "its client's groups take up too much")
        return False

    def _upgrade(self, group_id: str, holder: str) -> _Seat | HeartbeatReply:
        """A classic group that has members goes on under the broker's assignment, if that is allowed and possible."""
        refusal = HeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if self.settings.migration_policy not in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL):
            return refusal
        record = self._classic.portrait(group_id)
        if record is None:
            return HeartbeatReply(UNAVAILABLE, f"Group {group_id} is rebalancing by the classic protocol.")
        group = ConsumerGroup(group_id, self.catalogue, self.settings, self._times_of(group_id))
        if not classic_members.take_over(group, record, self._clock.monotonic_ms()):
            return refusal
        self._classic.hand_over(group_id)
        self._classic.directory.claim(group_id, GroupKind.CONSUMER, holder)
        _log.info("group %s is under the broker's assignment from epoch %d on", group_id, group.epoch)
        seat = self._seats[group_id] = _Seat(group)
        seat.extra.append((encode_group_key(GroupKey(group_id)), None))  # the classic group's record
        return seat

    def _match_soon(self) -> None:
        """Names wait to be matched against patterns: go on with that, with pauses for everybody else."""
        if self.catalogue.has_work and self._match_timer is None:
            self._match_timer = self._timers.add(self._clock.monotonic_ms() + MATCH_PAUSE_MS, self._match)

    def _match(self) -> None:
        self._match_timer = None
        regex = self.catalogue.work()
        if regex is not None:
            now_ms = self._clock.monotonic_ms()
            for seat in [seat for seat in self._seats.values() if seat.group.subscriptions.holds(regex)]:
                self._tell(seat, TopicsChanged(now_ms))
        self._match_soon()

    def _readers(self, topic: str) -> list[_Seat]:
        return [seat for seat in self._seats.values() if seat.group.subscriptions.reads(topic)]

    def _end(self, seat: _Seat, then: Callable[[ErrorCode], None]) -> None:
        """Write the end of a group: its offsets, then itself. It stays if meanwhile somebody joins."""
        group_id = seat.group.group_id

        def offsets_forgotten(error: HutongError | None) -> None:
            if error is not None:
                then(UNAVAILABLE)
            elif self._seats.get(group_id) is not seat or seat.group.state is not ConsumerGroupState.EMPTY:
                then(ErrorCode.NON_EMPTY_GROUP)
            else:
                self._retire(seat, lambda failed: then(ErrorCode.NONE if failed is None else UNAVAILABLE))

        self._classic.offset_log.forget(group_id, self._classic.offsets.keys_of_group(group_id), offsets_forgotten)

    def _retire(self, seat: _Seat, then: Callable[[HutongError | None], None]) -> None:
        """Delete every record of a group that nobody is a member of."""
        group = seat.group
        keys = group.retire()
        self._memory.forget(group.group_id)
        if seat.timer is not None:
            seat.timer.cancel()
            seat.timer = None
        del self._seats[group.group_id]
        self._classic.directory.release(group.group_id, GroupKind.CONSUMER)
        self._state.append_all([(encode_key(group.group_id, key), None) for key in keys], then)

    def _park(self, caller: Caller | None, then: Callable[..., None], otherwise: Reply) -> int | None:
        """Park a request until its group answers. `otherwise` is the reply if it never will."""
        ticket = next(self._tickets)

        def settle(reply: Reply | HutongError) -> None:
            then(otherwise if isinstance(reply, HutongError) else reply)

        try:
            owner, holder = (None, NOBODY) if caller is None else (caller.owner, caller.holder)
            self._fair_waits.park(ticket, settle, owner=owner, holder=holder)
        except LimitExceeded:
            then(otherwise)
            return None
        return ticket

    def _tell(self, seat: _Seat, event: Event) -> None:
        for instruction in seat.group.handle(event):
            match instruction:
                case Store(keys):
                    self._store(seat, keys)
                case Answer(ticket, reply):
                    self._answer(seat, ticket, reply)
                case Note(text, is_rebalance):
                    self.rebalances_total += is_rebalance
                    _log.info("group %s: %s", seat.group.group_id, text)
        if not seat.group.is_dead:
            group_id = seat.group.group_id
            self._memory.note(group_id, self._classic.directory.holder(group_id), seat.group.memory_bytes)
            self._set_timer(seat)
        self._match_soon()

    def _store(self, seat: _Seat, keys: tuple[RecordKey, ...]) -> None:
        group = seat.group
        entries: list[Entry] = [(encode_key(group.group_id, key), encode_value(group, key)) for key in keys]
        entries += seat.extra
        seat.extra = []
        seat.appends += 1
        if group.members:
            seat.empty_since_ms = None
        elif seat.empty_since_ms is None:
            seat.empty_since_ms = self._clock.wall_ms()

        def appended(error: HutongError | None) -> None:
            seat.durable += 1
            if error is not None:
                seat.failed = seat.durable
                _log.error("group %s could not be stored: %s", group.group_id, error)
                group.handle(StoreFailed(keys))
            # After a failure nothing that waits may be said: all of it may tell of what is not on disk.
            while seat.held and (error is not None or seat.held[0][0] <= seat.durable):
                _, ticket, reply = seat.held.popleft()
                self._waits.resume(ticket, reply if error is None else _failed(reply))

        self._state.append_all(entries, appended)

    def _answer(self, seat: _Seat, ticket: int, reply: Reply) -> None:
        """Once everything the group has appended is durable: the reply may tell of any of it."""
        if seat.durable == seat.appends:
            self._waits.resume(ticket, _failed(reply) if seat.failed and seat.failed == seat.appends else reply)
        else:
            seat.held.append((seat.appends, ticket, reply))

    def _tidy(self, seat: _Seat) -> None:
        """A group that nobody has ever been a member of leaves nothing behind."""
        group = seat.group
        if not group.epoch and not group.members and self._seats.get(group.group_id) is seat:
            del self._seats[group.group_id]
            self._memory.forget(group.group_id)
            self._classic.directory.release(group.group_id, GroupKind.CONSUMER)

    def _set_timer(self, seat: _Seat) -> None:
        """Keep a timer at the earliest thing that can lapse; one that stands earlier will find out that it is early."""
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


def _usage(seat: _Seat) -> Usage:
    has_members = bool(seat.group.members)
    return Usage(
        has_members=has_members,
        empty_since_ms=seat.empty_since_ms,
        subscribed=seat.group.subscriptions.names if has_members else None,
    )


def _ignore(_outcome: object) -> None:
    """Whatever failed to be forgotten is found again by the next retention check."""


def _failed(reply: Reply) -> Reply:
    """What is said instead where the change behind a reply could not be stored."""
    if isinstance(reply, RemoveReply):
        return RemoveReply((UNAVAILABLE,) * len(reply.errors))
    if isinstance(reply, JoinReply):
        return JoinReply(UNAVAILABLE, reply.member_id)
    return SyncReply(UNAVAILABLE) if isinstance(reply, SyncReply) else HeartbeatReply(UNAVAILABLE)
