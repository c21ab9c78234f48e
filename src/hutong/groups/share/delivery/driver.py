"""The driver of all share partitions: carries out what their machines say, and makes their state durable.

Strategy: an event that changes a machine's state is answered once that state is on disk. One write is on its way for a
partition at a time; what changes meanwhile goes with the next one, so that many answers share a write, and each write
has the whole state. After a failed write the machine is dropped and rebuilt from the durable state: records acquired
since are available again, and no client has an answer that contradicts it.

Decides nothing of records (`delivery/machine.py`). Knows nothing of sessions, requests or how a log is read.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.machine_host import MachineEntry, MachineHost
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.share.delivery.machine import SharePartition
from hutong.groups.share.delivery.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    Buried,
    Bury,
    Configured,
    Event,
    Hand,
    Instruction,
    LogStartsAt,
    PersistProgress,
    RecordsAvailable,
    ReleaseMember,
    Settled,
)
from hutong.groups.share.delivery.progress import ProgressPort, ProgressVersions, ProgressWrite
from hutong.groups.share.records import NO_PROGRESS, PartitionKey, decode_progress, encode_progress
from hutong.groups.share.settings import GroupRules, ShareSettings
from hutong.wire.kafka.error_codes import ErrorCode

BURY_AGAIN_MS: Final = 1_000
_GONE_ON: Final = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The group's progress here was changed elsewhere.")
_log = logging.getLogger("hutong.share")


class LogPort(Protocol):
    """The partitions' logs."""

    def first_offset(self, key: PartitionKey, rules: GroupRules, then: Callable[[int | HutongError], None]) -> None:
        """The first offset of a group that is new to the partition."""
        ...

    def start_offset(self, key: PartitionKey) -> int | None:
        """The first offset that is kept; None where there is no such partition."""
        ...

    def bury(self, key: PartitionKey, letter: Bury, topic: str, then: Callable[[bool], None]) -> None:
        """Write dead letters to `topic`; `then` gets True when no further attempt is needed: written, or hopeless."""
        ...


class PartitionEntry(MachineEntry[PartitionKey, SharePartition]):
    """One group's progress at one partition."""

    __slots__ = ("burying", "changed", "is_unused", "is_writing", "version")

    def __init__(self, key: PartitionKey, machine: SharePartition, version: int) -> None:
        super().__init__(key, machine)
        self.version = version  # of the record that the machine goes on from
        self.is_writing = False
        self.is_unused = False  # it is dropped once nothing of it is on its way
        self.changed: list[Continuation[None]] = []  # called after a write that has not begun
        self.burying: dict[Bury, Timer | None] = {}  # with the timer of its next attempt, None while under way


class Deliveries:
    """All share partitions of this node. A `then` is called exactly once, on the loop; errors are values."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        progress: ProgressPort,
        versions: ProgressVersions,
        logs: LogPort,
        rules_of: Callable[[str], GroupRules],
        settings: ShareSettings,
    ) -> None:
        self.on_offer: Callable[[PartitionKey], None] = lambda _key: None  # records have become available
        self._clock = clock
        self._timers = timers
        self._progress = progress
        self._versions = versions
        self._logs = logs
        self._rules_of = rules_of
        self._settings = settings
        self._host: MachineHost[PartitionEntry, Event, Instruction] = MachineHost(clock, timers, None, self._feed)
        self._opening: dict[PartitionKey, list[Continuation[SharePartition]]] = {}  # called when the machine is open
        self._open_of: dict[str, dict[PartitionKey, None]] = {}  # group -> its open partitions

    # ---- stop

    def close(self) -> None:
        self._host.close()
        for entry in self._host:
            _stop_burying(entry)

    # ---- looking

    def __iter__(self) -> Iterator[SharePartition]:
        """Every open partition, to look at."""
        return (entry.machine for entry in self._host)

    def get(self, key: PartitionKey) -> SharePartition | None:
        """The machine if it is open."""
        entry = self._host.get(key)
        return entry.machine if entry is not None else None

    def open(self, key: PartitionKey, then: Continuation[SharePartition]) -> None:
        """The machine, restored from the disk, or begun at the offset that the group's settings name."""
        entry = self._host.get(key)
        if entry is not None:
            entry.is_unused = False
            then(entry.machine)
        elif key in self._opening:
            self._opening[key].append(then)
        # Partitions that are being opened count too, or a burst of first fetches would pass the bound.
        elif len(self._host) + len(self._opening) >= self._settings.partitions_max:
            then(LimitExceeded("partitions_max", self._settings.partitions_max))
        else:
            # One attempt for all callers: the first offset may take a read of the log.
            self._opening[key] = [then]
            self._open(key)

    def refresh(self, machine: SharePartition, key: PartitionKey) -> None:
        """Take what has changed elsewhere: the group's settings, and where the log starts."""
        rules = self._rules_of(key.group_id).delivery
        # Settings are read at each use, so that an alteration needs no list of open partitions.
        if machine.rules != rules:
            self._feed(self._open_entry(key), Configured(rules))
        log_start = self._logs.start_offset(key)
        # Retention may have deleted records that the group has not read: its window then starts later.
        if log_start is not None and log_start > machine.start_offset:
            self._feed(self._open_entry(key), LogStartsAt(log_start))

    # ---- changing

    def acquire(self, key: PartitionKey, event: Acquire, then: Continuation[tuple[Acquired, ...]]) -> int:
        """Acquire records for a member and return their number; `then` gets them. The machine is open already."""
        handed: list[Hand] = []

        def safe(error: HutongError | None) -> None:
            then(error if error is not None else handed[0].acquired)

        self._feed(self._open_entry(key), event, safe, handed=handed)
        # The count is known at once, so that a fetch can stop taking from further partitions.
        return sum(each.last - each.first + 1 for each in handed[0].acquired)

    def acknowledge(self, key: PartitionKey, event: Acknowledge, then: Callable[[Settled], None]) -> None:
        """Apply a member's acknowledgements of records that it holds."""
        entry = self._host.get(key)
        if entry is None:
            then(Settled(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        settled: list[Settled] = []

        def safe(error: HutongError | None) -> None:
            if error is None:
                then(settled[0])
            else:
                code = error.code if isinstance(error, Refused) else ErrorCode.KAFKA_STORAGE_ERROR
                then(Settled(ErrorCode(code), str(error)))

        self._feed(entry, event, safe, settled=settled)

    def release_member(self, member_id: str, group_id: str) -> None:
        """Make the records of a member that is gone available to others."""
        # A partition that is not open has no locks: they end with the machine in memory.
        for key in list(self._open_of.get(group_id, ())):
            self._feed(self._open_entry(key), ReleaseMember(member_id))

    def leave(self, group_id: str) -> None:
        """Nobody reads for this group here any more: forget its machines where other nodes change progress.

        An operator sets the offsets of a group without members at its progress's owner, and this node hears nothing.
        """
        if self._progress.is_shared:
            for key in list(self._open_of.get(group_id, ())):
                entry = self._open_entry(key)
                entry.is_unused = True
                self._drop_unused(entry)

    def _drop_unused(self, entry: PartitionEntry) -> None:
        # What is on its way was promised by this machine. The end of it comes here again.
        if entry.is_unused and not (entry.is_writing or entry.changed or entry.burying):
            self._drop(entry.key, OwnerGone("nobody reads for the group here"))

    def replace(self, offsets: Mapping[PartitionKey, int | None], then: Continuation[None]) -> None:
        """Let groups begin at these offsets, or forget their progress (None)."""
        for key in offsets:
            # Acknowledgements of the old progress would be applied to the new one. The error makes clients fetch again.
            self._drop(key, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The offsets are being set."))

        def done(error: HutongError | None) -> None:
            if error is None:
                for key in offsets:
                    # A caller may have opened the partition again meanwhile, with the old progress.
                    self._drop(key, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The offsets were set."))
            then(error)

        self._progress.replace(offsets, done)

    def drop(self, concerns: Callable[[PartitionKey], bool], error: HutongError) -> None:
        """Forget all machines that this concerns: their topic is gone, or another node leads it."""
        for key in [*self._opening, *(entry.key for entry in self._host)]:
            if concerns(key):
                self._drop(key, error)

    # ---- inside: opening

    def _open_entry(self, key: PartitionKey) -> PartitionEntry:
        entry = self._host.get(key)
        assert entry is not None, "the caller has opened the partition in this loop iteration"
        return entry

    def _open(self, key: PartitionKey) -> None:
        attempt = self._opening[key]

        # Its owner may be another node, so the answer may come after the partition was dropped and opened again.
        def read(outcome: bytes | HutongError | None) -> None:
            if self._opening.get(key) is not attempt:
                return  # the partition was dropped meanwhile, and those who waited have been answered
            if isinstance(outcome, HutongError):
                self._drop(key, outcome)
            elif outcome is None:
                self._begin(key)
            else:
                progress, rules = decode_progress(outcome), self._rules_of(key.group_id)
                machine = SharePartition(progress.start_offset, rules.delivery, progress.runs)
                self._opened(PartitionEntry(key, machine, progress.version))

        # Progress is read when it is needed: most partitions of most groups are idle.
        self._progress.read(key, read)

    def _begin(self, key: PartitionKey) -> None:
        """Open a partition that the group has never read."""
        attempt, rules = self._opening[key], self._rules_of(key.group_id)

        # Finding the first offset by time reads the log.
        def begins(outcome: int | HutongError) -> None:
            if self._opening.get(key) is not attempt:
                return
            if isinstance(outcome, HutongError):
                self._drop(key, outcome)
            else:
                self._opened(PartitionEntry(key, SharePartition(outcome, rules.delivery), NO_PROGRESS))

        self._logs.first_offset(key, rules, begins)

    def _opened(self, entry: PartitionEntry) -> None:
        key, machine = entry.key, entry.machine
        opening = self._opening.pop(key)
        self._host.put(entry)
        self._open_of.setdefault(key.group_id, {})[key] = None

        def safe(error: HutongError | None) -> None:
            for then in opening:
                then(machine if error is None else error)

        # The first offset must be durable before a record is handed out: the log may have moved on after a crash.
        if entry.version == NO_PROGRESS:
            self._write(entry, safe)
        else:
            safe(None)
        # Dead letters that were under way at the end of the last run are written again: at least once.
        for letter in machine.to_bury():
            self._carry_out(entry, letter)
        if self._host.hosts(entry):
            self.refresh(machine, key)

    def _drop(self, key: PartitionKey, error: HutongError) -> None:
        """Forget a machine; the next caller restores it from what is durable then."""
        for then in self._opening.pop(key, ()):
            then(error)
        entry = self._host.get(key)
        if entry is None:
            return
        self._host.remove(entry)
        keys = self._open_of[key.group_id]
        del keys[key]
        if not keys:
            del self._open_of[key.group_id]
        _stop_burying(entry)
        changed, entry.changed = entry.changed, []
        for safe in changed:
            safe(error)

    # ---- inside: machines

    def _feed(
        self,
        entry: PartitionEntry,
        event: Event,
        safe: Continuation[None] | None = None,
        *,
        handed: list[Hand] | None = None,
        settled: list[Settled] | None = None,
    ) -> None:
        """Feed an event. `safe` is called once its changes are on disk, at once if there are none."""
        instructions = self._host.handle(entry, event)
        is_changed = False
        for instruction in instructions:
            match instruction:
                case Hand() if handed is not None:
                    handed.append(instruction)
                case Settled() if settled is not None:
                    settled.append(instruction)
                case PersistProgress():
                    is_changed = True
        # The write begins before other instructions, so that what they cause is stored after it.
        if is_changed:
            self._write(entry, safe or _ignore)
        for instruction in instructions:
            self._carry_out(entry, instruction)
        if not is_changed and safe is not None:
            safe(None)

    def _carry_out(self, entry: PartitionEntry, instruction: Instruction) -> None:
        match instruction:
            case RecordsAvailable():
                self.on_offer(entry.key)
            case Bury():
                self._bury(entry, instruction)
            case _:
                pass

    def _write(self, entry: PartitionEntry, safe: Continuation[None]) -> None:
        entry.changed.append(safe)
        # One write at a time: what changes meanwhile goes with the next, and many answers share a write.
        if not entry.is_writing:
            self._write_now(entry)

    def _write_now(self, entry: PartitionEntry) -> None:
        machine, entry.is_writing = entry.machine, True
        waiting, entry.changed = entry.changed, []
        version = self._versions.take()

        def written(error: HutongError | None) -> None:
            entry.is_writing = False
            # Somebody else goes on from this progress. By this code clients look for the leader, and come back.
            if isinstance(error, Refused) and error.code == ErrorCode.FENCED_STATE_EPOCH:
                error = _GONE_ON
            # The progress was reset or deleted meanwhile, so this write says nothing about it.
            if not self._host.hosts(entry):
                gone = error or OwnerGone("the group's progress here was dropped")
                for safe in waiting:
                    safe(gone)
                return
            if error is None:
                entry.version = version
            else:
                _log.warning("group %s: its progress could not be stored: %s", entry.key.group_id, error)
                # The machine is ahead of the disk now. The next caller restores the durable progress, and records come
                # again.
                self._drop(entry.key, error)
            for safe in waiting:
                safe(error)
            if not self._host.hosts(entry):
                return
            if entry.changed and not entry.is_writing:
                self._write_now(entry)
            else:
                self._drop_unused(entry)

        value = encode_progress(machine.start_offset, machine.snapshot(), version)
        self._progress.write(ProgressWrite(entry.key, entry.version, value), written)

    # ---- inside: dead letters

    def _bury(self, entry: PartitionEntry, letter: Bury) -> None:
        """Write a dead letter, as often as needed: nothing else keeps the record."""
        topic = self._rules_of(entry.key.group_id).dead_letter_topic
        entry.burying[letter] = None

        def ended(is_over: bool) -> None:
            # Stopped by `_drop`: the restored machine buries it again.
            if letter not in entry.burying or not self._host.hosts(entry):
                return
            if is_over:
                del entry.burying[letter]
                self._feed(entry, Buried(letter.first, letter.last))
            else:
                # The dead-letter topic may be missing, or its log full. The record waits; its group continues.
                due_ms = self._clock.monotonic_ms() + BURY_AGAIN_MS
                entry.burying[letter] = self._timers.add(due_ms, lambda: self._bury(entry, letter))

        if topic:
            self._logs.bury(entry.key, letter, topic, ended)
        else:  # the group has no dead letters any more
            ended(True)


def _stop_burying(entry: PartitionEntry) -> None:
    for timer in entry.burying.values():
        if timer is not None:
            timer.cancel()
    entry.burying.clear()


def _ignore(_error: HutongError | None) -> None:
    """Ignore the outcome: callers that need it have their own continuation."""
