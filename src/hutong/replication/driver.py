"""One replica of a partition group on one node: its journal, and the role that it has at present.

    open ──> following ── leads by the newest state ──> leading
               ^   ^                                      │ another leader, a higher epoch
      CutAt:   │   └──────── abort, open again <──────────┘
      abort, cut, open again

Strategy: the newest state of the group decides (`apply`). A journal that must be cut, or that was led, is opened again
by a task; there is one at a time. Messages that arrive meanwhile are dropped, for followers ask again. The state and
the links are looked at anew once it is open. A leader that hears of a higher epoch steps aside at once: it can commit
nothing any more. A journal that has failed has no role.

Knows nothing of connections, of other groups, nor of how the cluster agrees.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, Refused, StorageError, StorageShortage
from hutong.foundation.pace import BytePace
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.qos import Qos
from hutong.journal.files.disk import Disk
from hutong.journal.journal import Journal
from hutong.journal.replicate.fork import fork_journal
from hutong.journal.replicate.install import install_files
from hutong.journal.replicate.truncation import truncate_journal
from hutong.replication.following.driver import FollowingReplica
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.replication.journal_tie import JournalTie
from hutong.replication.leading.driver import LeadingReplica
from hutong.replication.links import ReplicaLinks
from hutong.replication.replica_events import OpenJournal, ReplicaEvents
from hutong.replication.replica_messages import (
    AskedToJoin,
    ChunksAcknowledged,
    EpochRefused,
    FilePartAsked,
    FilesAsked,
    ReplicaMessage,
)
from hutong.replication.replica_ports import ReplicaPorts
from hutong.replication.settings import ReplicationSettings
from hutong.runtime.threads.offload import Offload, run
from hutong.wire.kafka.error_codes import ErrorCode

NOT_LEADER: Final = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads this partition.")
_DEFAULT_SETTINGS: Final = ReplicationSettings()


def _nothing() -> None:
    """Leave the files as they are."""


def _ignored(_error: HutongError | None) -> None:
    """Wait for nothing."""


class _Fork(NamedTuple):
    """A journal that another group shall have, too, as it is at the end of an epoch."""

    directory: Path
    epoch: int
    then: Continuation[None]


class GroupReplica:
    """One group on one node. `state` is the newest that was applied; `journal` may be about to be opened again."""

    journal: Journal

    def __init__(
        self,
        name: str,
        node: int,
        incarnation: int,
        *,
        open_journal: OpenJournal,
        links: ReplicaLinks,
        events: ReplicaEvents,
        clock: Clock,
        timers: TimerWheel,
        offload: Offload,
        disk: Disk,
        settings: ReplicationSettings = _DEFAULT_SETTINGS,
        origin: int | None = None,
        pace: BytePace | None = None,
    ) -> None:
        """`pace` is that of all groups of this node.

        `origin` names this node's disk, as it was given to `Journal.open` as `node`: the node's number by default.

        A node that comes back with an empty disk needs another one: what it wrote before says nothing of this disk.
        """
        self.name = name
        self.state: PartitionGroupState | None = None
        self.failure: HutongError | None = None
        self._node = node
        self._incarnation = incarnation
        self._origin = node if origin is None else origin
        self._open_journal = open_journal
        pace = pace or BytePace(settings.copied_bytes_per_second_max)
        self._ports = ReplicaPorts(links, events, clock, timers, offload, disk, settings, pace)
        self._tie = JournalTie()
        self._role: LeadingReplica | FollowingReplica | None = None
        self._former_leader = NO_LEADER  # before the one of `state`
        self._fenced_epoch = -1  # this node leads in none up to this one
        self._committed_position = 0
        self._early: dict[int, AskedToJoin] = {}  # of followers that know of this node's epoch before it does
        self._forks: list[_Fork] = []  # that are to be made as soon as the journal is open
        self._reopening: asyncio.Task[None] | None = None
        self._is_open = False
        self._has_failed = False  # for good
        self._is_closed = False

    @property
    def is_leading(self) -> bool:
        """True from `events.led` on, for the present epoch."""
        return isinstance(self._role, LeadingReplica) and self._role.is_leading

    @property
    def is_changing_set(self) -> bool:
        """True while it leads, and somebody is joining or a change of the set is not decided yet."""
        return isinstance(self._role, LeadingReplica) and self._role.machine.is_changing_set

    @property
    def proposed(self) -> frozenset[int]:
        """Those outside the set whom this node, which leads, has proposed."""
        return self._role.machine.proposed if isinstance(self._role, LeadingReplica) else frozenset()

    @property
    def joining(self) -> frozenset[int]:
        """Those outside the set who count at this node, which leads."""
        return self._role.machine.joining if isinstance(self._role, LeadingReplica) else frozenset()

    @property
    def committed_position(self) -> int:
        """As far as this node knows."""
        role = self._role
        return max(self._committed_position, role.machine.committed_position if role is not None else 0)

    @property
    def problem(self) -> str | None:
        """The reason for which it last stopped listening to its leader, None if there was none."""
        return self._role.problem if isinstance(self._role, FollowingReplica) else None

    def follower_lags(self) -> Mapping[int, int]:
        """The bytes of the stream that each other replica lacks on its disk; nothing where this node does not lead."""
        return self._role.machine.follower_lags() if isinstance(self._role, LeadingReplica) else {}

    @property
    def copied_bytes(self) -> int:
        """The bytes of the leader's files that are here, and not in their places yet."""
        return self._role.copied_bytes if isinstance(self._role, FollowingReplica) else 0

    # -- what the owner says

    async def open(self) -> None:
        """Open the journal, and follow. Raises StorageError."""
        await self._open()
        self._settle()

    def begin(self) -> None:
        """Open the journal as soon as that is possible, of a group that is new here; a failure is reported."""
        if self._is_closed:
            return
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        released.set_result(None)
        self._reopening = asyncio.get_running_loop().create_task(self._reopened(released, _nothing, _ignored))

    def fork(self, directory: Path, epoch: int, then: Continuation[None]) -> None:
        """Give the journal as it is at the end of `epoch` to another group, too; `then` is called when it is there.

        It closes the journal for a moment. A node with chunks of a later epoch has made the fork before, or never had
        anything that counts; the same goes for one that is no replica.
        """
        if self._has_failed:
            assert self.failure is not None
            then(self.failure)
            return
        self._forks.append(_Fork(directory, epoch, then))
        self._settle()

    def apply(self, state: PartitionGroupState) -> None:
        """Note a state of the group. One that is not newer changes nothing."""
        known = self.state
        if known is None or (state.epoch, state.version) > (known.epoch, known.version):
            self.state = state
            if known is not None and known.leader != state.leader:
                self._former_leader = known.leader
                self._fence(known.leader)
            self._settle()

    def proposal_refused(self, version: int) -> None:
        """Note that the cluster will never take the proposal for this version."""
        if isinstance(self._role, LeadingReplica):
            self._role.proposal_refused(version)

    def link_opened(self, node: int, incarnation: int) -> None:
        self._fence(node)
        if isinstance(self._role, FollowingReplica):
            self._role.link_opened(node)

    def link_closed(self, node: int) -> None:
        self._early.pop(node, None)
        if self._role is not None:
            self._role.link_closed(node)

    def told(self, node: int, message: ReplicaMessage) -> None:
        """Take a message of this group."""
        role, epoch = self._role, self._known_epoch
        if isinstance(message, EpochRefused):
            if isinstance(role, LeadingReplica) and message.epoch > role.epoch:
                self._step_down()
        elif message.epoch < epoch:
            self._ports.links.send(node, EpochRefused(self.name, epoch))
        elif isinstance(message, AskedToJoin | ChunksAcknowledged | FilesAsked | FilePartAsked):
            if isinstance(role, LeadingReplica) and message.epoch == role.epoch:
                role.told(node, message)
            elif isinstance(message, AskedToJoin):
                self._early[node] = message
        elif isinstance(role, FollowingReplica) and message.epoch == epoch:
            role.told(node, message)

    def when_committed(self, then: Continuation[None], timeout_ms: int) -> None:
        """Call `then` once all that was taken here so far is on the disks of all that are in sync, or with an error."""
        self.journal.writer.seal_chunk()
        self.journal.writer.when_safe(Qos.ALL, then, timeout_ms)

    def refuse_waits(self) -> None:
        """Refuse those who wait for other replicas, until something is replicated again: this node hears of nobody."""
        if isinstance(self._role, LeadingReplica):
            self._tie.progress.replication_failed(OwnerGone("this node hears of no other node"))

    def resign(self) -> None:
        """Lead no more in the present epoch."""
        if isinstance(self._role, LeadingReplica):
            self._step_down()

    async def close(self) -> None:
        """Stop, and close the journal cleanly."""
        self._is_closed = True
        if self._reopening is not None:
            await self._reopening
        self._end_role()
        if self._is_open:
            self._is_open = False
            await self.journal.close()

    def _fence(self, node: int) -> None:
        """Let the former leader hear of the present epoch: it may hear nothing of the cluster but the other replicas.

        Else their answers to its questions would prolong its lease for as long as it has nothing to ship.
        """
        is_other = node not in (NO_LEADER, self._node)
        if is_other and node == self._former_leader and self._ports.links.is_open(node):
            self._ports.links.send(node, EpochRefused(self.name, self._known_epoch))

    # -- roles

    @property
    def _known_epoch(self) -> int:
        return self.state.epoch if self.state is not None else -1

    def _settle(self) -> None:
        """Take the role that the newest state says."""
        state, role = self.state, self._role
        if role is None or self._is_closed:  # it is being opened, or has failed
            return
        # First of all: what comes in a later epoch must not be in a fork.
        if self._forks and self._is_forking():
            return
        if state is None:
            return
        is_chosen = (state.leader, state.leader_incarnation) == (self._node, self._incarnation)
        if is_chosen and state.epoch > self._fenced_epoch:
            if isinstance(role, LeadingReplica) and role.epoch == state.epoch:
                role.set_changed(state)
            else:
                self._lead(state)
        elif isinstance(role, FollowingReplica):
            is_replica = self._node in state.replicas and state.leader != self._node
            role.follow(state, state.leader if is_replica else NO_LEADER)
        else:
            self._step_down()

    def _lead(self, state: PartitionGroupState) -> None:
        """Lead in this epoch. A node that has led before, and is chosen again, keeps its journal as it is."""
        self._end_role()
        if state.epoch <= self.journal.writer.leader_epoch:
            self._fail(StorageError(f"{self.name} has chunks of epoch {self.journal.writer.leader_epoch} already"))
            return
        role = self._role = LeadingReplica(self._node, self._origin, state, self.journal, self._tie, self._ports)
        role.start()
        early, self._early = self._early, {}
        for node, asked in early.items():
            self.told(node, asked)

    def _end_role(self) -> None:
        """End the role, with the journal open as it is."""
        self._committed_position = self.committed_position
        role, self._role = self._role, None
        if role is None:
            return
        role.end()
        if isinstance(role, LeadingReplica):
            self._fenced_epoch = role.epoch
            if role.is_leading:
                self._ports.events.stepped_down(self.name)

    def _step_down(self) -> None:
        self._end_role()
        self._reopen(_nothing)

    # -- the journal

    def _cut(self, position: int) -> None:
        disk, directory = self._ports.disk, self.journal.directory
        self._reopen(lambda: truncate_journal(disk, directory, position))

    def _install(self, sizes: Mapping[str, int]) -> None:
        disk, directory = self._ports.disk, self.journal.directory
        self._reopen(lambda: install_files(disk, directory, sizes))

    def _is_forking(self) -> bool:
        """Make the forks that were asked for. False where none of them has to be made."""
        disk, source, last = self._ports.disk, self.journal.directory, self.journal.epochs.last
        is_replica = self.state is None or self._node in self.state.replicas
        forks = [each for each in self._forks if is_replica and last <= each.epoch]
        others, self._forks = [each for each in self._forks if each not in forks], []

        def work() -> None:
            for each in forks:
                fork_journal(disk, source, each.directory)

        def made(error: HutongError | None) -> None:
            for each in forks:
                each.then(error)

        for each in others:
            each.then(None)
        if forks:
            self._reopen(work, made)
        return bool(forks)

    def _reopen(self, work: Callable[[], None], then: Continuation[None] = _ignored) -> None:
        """Close the journal, do something with its files on a worker, and open it again.

        `then` hears of the outcome of the work, unless the node stops before it is done.
        """
        self._end_role()
        self._is_open = False
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A flush in flight still writes to its file: nothing is cut before it has ended.
        self.journal.abort(NOT_LEADER, lambda: released.set_result(None))
        self._reopening = asyncio.get_running_loop().create_task(self._reopened(released, work, then))

    async def _reopened(
        self, released: "asyncio.Future[None]", work: Callable[[], None], then: Continuation[None]
    ) -> None:
        await released
        try:
            await self._worked(work, then)
            while not self._is_closed and not await self._is_done(self._open()):
                await self._pause(self._ports.settings.reopen_again_ms)
        except StorageError as error:
            self._fail(error)
        finally:
            self._reopening = None
        self._settle()

    async def _worked(self, work: Callable[[], None], then: Continuation[None]) -> None:
        """Do the work, also after a shortage. Raises other StorageErrors."""
        try:
            while not self._is_closed:
                if await self._is_done(run(self._ports.offload, work)):
                    then(None)
                    return
                await self._pause(self._ports.settings.reopen_again_ms)
        except StorageError as error:
            then(error)
            raise

    async def _is_done(self, attempt: Awaitable[None]) -> bool:
        """Await it. False for a shortage, which may be over later. Raises other StorageErrors."""
        try:
            await attempt
        except StorageShortage as shortage:
            self.failure = shortage
            return False
        return True

    async def _open(self) -> None:
        tie = JournalTie()
        self.journal = journal = await self._open_journal(self.name, tie, NOT_LEADER)
        self._tie, self._is_open, self.failure = tie, True, None
        # What was known to be committed is known still: none of it was cut.
        committed_position = max(journal.progress.committed_position, min(self._committed_position, journal.position))
        tie.progress.replicated(committed_position, committed_position)
        journal.on_flushed(lambda: self._flushed(journal))
        journal.on_failure(lambda error: self._journal_failed(journal, error))
        self._role = FollowingReplica(
            self.name, self._incarnation, journal, tie, self._ports, committed_position, self._cut, self._install
        )
        self._ports.events.journal_opened(self.name, journal)

    async def _pause(self, milliseconds: int) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ports.timers.add(self._ports.clock.monotonic_ms() + milliseconds, lambda: over.set_result(None))
        await over

    def _flushed(self, journal: Journal) -> None:
        if journal is self.journal and self._role is not None:
            self._role.grew()

    def _journal_failed(self, journal: Journal, error: StorageError) -> None:
        if journal is self.journal and self._is_open:
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        """Neither lead nor follow any more."""
        self._end_role()
        self.failure, self._has_failed = error, True
        forks, self._forks = self._forks, []
        for each in forks:
            each.then(error)
        self._ports.events.journal_failed(self.name, error)
