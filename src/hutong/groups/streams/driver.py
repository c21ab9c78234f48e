"""The coordinator of streams groups (KIP-1071): heartbeats, and topics that come and go.

Strategy: what it shares with other kinds of groups is in `assigned/driver.py`. Decisions are in `machine.py`, checks of
input in `requests.py`. Internal topics that are missing are named in the reply: who carried the request creates them in
the name of the client. Belongs to one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Refused
from hutong.foundation.machine_host import StatePort
from hutong.foundation.timers import TimerWheel
from hutong.groups.assigned.driver import NO_ROOM, UNAVAILABLE, AssignedGroupCoordinator
from hutong.groups.assigned.messages import JOINING, SubscribedTopicsChanged
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.groups.offsets.coordinator import OffsetCoordinator
from hutong.groups.requests import GroupCaller
from hutong.groups.streams.machine import StreamsGroup
from hutong.groups.streams.messages import StoredStreamsGroup, StreamsReply
from hutong.groups.streams.records import RECORDS
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.peer import ClassicGroups
    from hutong.wire.kafka.apis.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest

_CLOSED: Final = StreamsReply(UNAVAILABLE)


class StreamsGroupCoordinator(AssignedGroupCoordinator[StreamsGroup]):
    """All streams groups of this node. `catalogue` is that of consumer groups, which is kept up to date there."""

    KIND = GroupKind.STREAMS

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        directory: GroupDirectory,
        offsets: OffsetCoordinator,
        classic: ClassicGroups,
        catalogue: TopicCatalogue,
        settings: StreamsGroupSettings | None = None,
        rules_of: Callable[[str], StreamsRules] | None = None,
    ) -> None:
        self.settings = settings or StreamsGroupSettings()
        super().__init__(
            clock=clock,
            timers=timers,
            state=state,
            directory=directory,
            offsets=offsets,
            classic=classic,
            records=RECORDS,
            waits_max=self.settings.waits_max,
            groups_bytes_max=self.settings.groups_bytes_max,
        )
        self._catalogue = catalogue
        self._rules_of = rules_of or (lambda _group_id: self.settings.rules)

    def new_group(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id, self._catalogue, self.settings, self._rules_of(group_id))

    def restored_group(self, group_id: str, stored: StoredStreamsGroup, now_ms: int) -> StreamsGroup:
        rules = self._rules_of(group_id)
        return StreamsGroup.restored(group_id, self._catalogue, self.settings, rules, stored, now_ms)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: GroupCaller, then: Callable[[StreamsReply], None]
    ) -> None:
        from hutong.groups.streams import requests  # late: most nodes have no streams groups

        # Checks that need no group come first, so that a bad request creates none.
        refusal = _CLOSED if self._host.is_closed else requests.heartbeat_error(request, self.settings)
        if refusal is not None:
            then(refusal)
            return
        try:
            topology = requests.topology_of(request, self.settings)
        except Refused as refused:
            then(StreamsReply(ErrorCode(refused.code), refused.message))
            return
        # The group is made here if it has to be, and goes again if the machine refuses its first member.
        entry = self._entry_for(request.group_id, caller, may_create=request.member_epoch == JOINING)
        if isinstance(entry, tuple):
            then(StreamsReply(*entry))
            return
        # The first member's topology is kept; the others' are compared with it.
        wanted_bytes = requests.bytes_of_heartbeat(request, topology, is_first=entry.machine.topology is None)
        # Leaving always passes: it frees memory.
        if request.member_epoch >= JOINING and not self._has_room(entry, request.member_id, None, wanted_bytes, caller):
            self._tidy(entry)
            then(StreamsReply(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
            return
        ticket = self._callers.park(then, _CLOSED, owner=caller.owner, holder=caller.holder)
        if ticket is not None:
            self._feed(entry, requests.heartbeat_event(request, topology, caller, ticket, self._clock.monotonic_ms()))
        self._tidy(entry)

    def topic_changed(self, name: str) -> None:
        """A topic came, went or has another number of partitions. The catalogue knows it already."""
        now_ms = self._clock.monotonic_ms()
        # Few groups have many topics; each names its own, so no index is kept of them.
        for entry in self._host:
            if name in entry.machine.topic_names:
                self._feed(entry, SubscribedTopicsChanged(now_ms))

    def settings_changed(self, group_id: str) -> None:
        """The group's own settings were altered."""
        entry = self._host.get(group_id)
        if entry is not None:
            # The new rules count from each member's next heartbeat on.
            entry.machine.times = self._rules_of(group_id)
