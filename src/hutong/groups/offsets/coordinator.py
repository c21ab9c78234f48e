"""Committed offsets of all kinds of groups: the table, its log, open transactions, bounds and retention.

Strategy: one table and one log serve every kind of group. The coordinator of a kind decides on its members' right to
commit, and calls here. The same node-wide timer lets each kind enforce retention, since the kind knows a group's use of
its offsets (KIP-211).

Knows nothing of members or generations.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.machine_host import StatePort
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.directory import GroupDirectory
from hutong.groups.offsets.client_shares import OffsetShares
from hutong.groups.offsets.offset_log import Change, OffsetLog
from hutong.groups.offsets.records import decode_offset
from hutong.groups.offsets.store import OffsetStore
from hutong.groups.offsets.transactional import TransactionalOffsets, is_transactional_key
from hutong.groups.record_keys import GroupKey, OffsetKey, decode_key
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


class OffsetCoordinator:
    """All committed offsets of this node.

    Start: `replay` every record of an offset, then `start`, after the groups have claimed their ids. A `then` is called
    exactly once, on the loop; errors are values, never raised.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        directory: GroupDirectory,
        settings: GroupSettings,
        topic_exists: Callable[[str, int], bool],
        deletion_ms: Callable[[], int] | None = None,
    ) -> None:
        """`deletion_ms` is the time by which offsets are old, wall time by default."""
        self.settings = settings
        self.table = OffsetStore()
        self.transactional = TransactionalOffsets(
            self.table, state, WaitTable("transactional offsets", timers, settings.waits_max)
        )
        self.log = OffsetLog(self.table, state, self.transactional)
        self.retention_passes: list[Callable[[int], None]] = []  # one of each kind of group; they get wall time
        self._clock = clock
        self._timers = timers
        self._topic_exists = topic_exists
        self._deletion_ms = deletion_ms or clock.wall_ms
        self._shares = OffsetShares(self.table, directory, settings)
        self._retention_timer: Timer | None = None
        self._is_closed = False

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of an offset, oldest first. Raises CorruptData."""
        if is_transactional_key(key):
            self.transactional.replay(key, value)
        else:
            self.apply_late(key, value)

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """Apply a record whose append had failed, and which is on disk after all."""
        if is_transactional_key(key):
            self.transactional.apply_late(key, value)
            return
        decoded = decode_key(key)
        assert not isinstance(decoded, GroupKey), "a group's record goes to the coordinator of its kind"
        self.table.apply(decoded, None if value is None else decode_offset(value))

    def start(self) -> None:
        """Forget offsets of topics that are gone, and begin to enforce retention."""
        # A crash may come between the deletion of a topic and that of its offsets.
        for group_id in list(self.table.groups()):
            keys = self.table.keys_of_group(group_id)
            lost = [key for key in keys if not self._topic_exists(key.topic, key.partition)]
            self.log.forget(group_id, lost, retried_by_retention)
        self._arm_retention()

    def close(self) -> None:
        """Change nothing more: every later request gets COORDINATOR_NOT_AVAILABLE."""
        self._is_closed = True
        if self._retention_timer is not None:
            self._retention_timer.cancel()
        self.transactional.close()

    # ---- commits

    def group_ids(self) -> set[str]:
        """Every group that has offsets, or some that wait for the end of a transaction."""
        return {*self.table.groups(), *self.transactional.groups()}

    def has_room(self, group_id: str, changes: Sequence[Change], holder: str, waiting: int = 0) -> bool:
        """Return False if the changes pass the node's bounds, or the fair share of the client `holder`.

        `waiting` offsets of open transactions count as well: they are in no table yet, but each may get into it.
        """
        return self.table.has_room(changes, self.settings, waiting) and self._shares.has_room(group_id, changes, holder)

    def forget(self, group_id: str, keys: Iterable[OffsetKey], then: Callable[[ErrorCode], None]) -> None:
        """Delete committed offsets of one group."""
        if self._is_closed:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self.log.forget(group_id, keys, answer_to(then))

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that was deleted: a new topic of that name begins at 0."""
        self.transactional.forget_topic(topic, retried_by_retention)
        keys = sorted(self.table.keys_of_topic(topic), key=lambda key: key.group_id)
        for group_id, of_group in itertools.groupby(keys, key=lambda key: key.group_id):
            self.log.forget(group_id, of_group, retried_by_retention)

    # ---- retention

    def _arm_retention(self) -> None:
        due_ms = self._clock.monotonic_ms() + self.settings.offsets_retention_check_interval_ms
        self._retention_timer = self._timers.add(due_ms, self._enforce_retention)

    def _enforce_retention(self) -> None:
        now_ms = self._deletion_ms()
        for enforce in self.retention_passes:
            enforce(now_ms)
        self._arm_retention()


def error_code(error: HutongError | None) -> ErrorCode:
    """The code that a client gets for a failed append."""
    if error is None:
        return ErrorCode.NONE
    if is_too_large(error):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE  # clients give up at this code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def is_too_large(error: HutongError) -> bool:
    """Return True if the log takes no batch of that size: trying again is no use."""
    # A journal also refuses while its disk is full, or once a flush has failed. Both pass, the second by a restart.
    return isinstance(error, Refused) and error.code == ErrorCode.MESSAGE_TOO_LARGE


def answer_to(then: Callable[[ErrorCode], None]) -> Continuation[None]:
    return lambda error: then(error_code(error))


def retried_by_retention(_outcome: object) -> None:
    """Ignore the outcome: the next retention check finds again what could not be forgotten."""
