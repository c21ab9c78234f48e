"""One fetch pass: a read of every partition that a fetch asks for, as far as its limits allow.

Strategy: a pass reads what is in memory and notes what must come from disk; `answer` starts the disk reads. So a pass
that finds too little costs no disk read. The limits are those of the request and of the node, whichever is smaller.

Knows nothing of sessions or of waiting: `pending_fetch` decides how many passes a request needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.broker.rights.authorization import may, may_in_cluster, refusal
from hutong.foundation.errors import CorruptData, Expired, HutongError, LimitExceeded, Refused
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.journal.append.transactions import aborted_between
from hutong.journal.format.batches import end_offset_of
from hutong.journal.log import DiskRead
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import HALF_TOPICS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from hutong.broker.fetch.actors import Actor
    from hutong.broker.fetch.parts import FetchParts
    from hutong.broker.topics.partition import Partition
    from hutong.groups.actor_configs import ActorRules
    from hutong.journal.log import EpochEnd, PartitionLog

IDS_FROM_VERSION: Final = 13  # KIP-516
RACKS_FROM_VERSION: Final = 11  # KIP-392
READ_COMMITTED: Final = 1
TIGHT_BYTES: Final = 64 * 1024  # of one answer, and at least one batch, while memory for answers is short
_LED_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class ReadRights(Enum):
    """The topics that a fetch may read."""

    ALL = auto()
    CHECKED = auto()  # topic by topic
    NONE = auto()


def read_rights(request: FetchRequest, context: RequestContext[FetchParts]) -> ReadRights:
    """The rights of a client while authorization is on.

    A client that claims to be a follower must be a broker: those may read every topic.
    """
    # KIP-903 moved the replica's id into a field of its own; older followers send the first.
    if max(request.replica_id, request.replica_state.replica_id) < 0:
        return ReadRights.CHECKED
    return ReadRights.ALL if may_in_cluster(context, Operation.CLUSTER_ACTION) else ReadRights.NONE


EpochEnds = Mapping[tuple["Partition", int], "EpochEnd | HutongError"]
"""The ends of epochs that readers have named, where they are known."""
NO_EPOCH_ENDS: Final[EpochEnds] = {}
_PartitionRead = tuple["Partition", int, DiskRead["list[memoryview]"], PartitionData, "array[int] | None"]
"""The partition, the offset asked for, the read, the place of its outcome, and the transactions aborted there."""


class FetchPass:
    """The records that one pass found. `logs` are those that it could read, in the order of the request.

    `epochs_wanted` are those whose ends it would have to know: it is of no use then.
    """

    __slots__ = (
        "_bytes_left",
        "_context",
        "_disk_bytes",
        "_disk_bytes_max",
        "_epoch_ends",
        "_in_memory",
        "_is_committed",
        "_is_near",
        "_request",
        "_rights",
        "bytes_found",
        "disk_reads",
        "epochs_wanted",
        "has_error",
        "logs",
        "response",
    )

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext[FetchParts],
        rights: ReadRights,
        epoch_ends: EpochEnds = NO_EPOCH_ENDS,
    ) -> None:
        broker = context.broker
        self.response = FetchResponse()
        self.bytes_found = 0
        self.has_error = False
        self.logs: list[PartitionLog] = []
        self.disk_reads: list[_PartitionRead] = []
        self.epochs_wanted: list[tuple[Partition, int]] | None = None
        self._request = request
        self._context = context
        self._rights = rights
        self._epoch_ends = epoch_ends
        self._is_committed = request.isolation_level == READ_COMMITTED
        # KIP-392: other consumers read from leaders alone.
        self._is_near = not broker.cluster.is_alone and context.api_version >= RACKS_FROM_VERSION
        self._in_memory: list[tuple[PartitionLog, int]] = []  # how many bytes of each log the answer takes along
        self._disk_bytes = 0
        self._disk_bytes_max = broker.disk_reads.bytes_max  # of one partition
        # Answers of slow readers stay in memory until they are sent: smaller ones let all readers go on.
        fetch_max_bytes = TIGHT_BYTES if broker.memory.is_tight else broker.settings.fetch_max_bytes
        self._bytes_left = min(request.max_bytes, fetch_max_bytes)

    @property
    def is_enough(self) -> bool:
        """True if the answer need not wait for more. An error is answered at once, as Kafka does."""
        return self.has_error or self.bytes_found >= self._request.min_bytes

    def end_of(self, log: PartitionLog) -> int:
        """The offset up to which this request may read the log."""
        return log.last_stable_offset if self._is_committed else log.high_watermark

    def add_topic(self, topic: FetchTopic) -> list[PartitionData]:
        """The response's list for the partitions of a topic."""
        entries: list[PartitionData] = []
        self.response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, entries))
        return entries

    def read_partitions(
        self, topic: FetchTopic, partitions: Sequence[FetchPartition], entries: list[PartitionData]
    ) -> None:
        """Read partitions of one topic into the list that `add_topic` gave."""
        for asked in partitions:
            data = PartitionData(asked.partition)
            entries.append(data)
            try:
                self._read(topic, asked, data)
            except Refused as refused:
                _put_error(data, refused)
                if refused.code in _LED_ELSEWHERE:
                    self._put_leader(topic, data)
                # Kafka's consumers name topics that were just deleted: other partitions may still have to wait.
                if refused.code not in _NOT_THERE:
                    self.has_error = True

    def answer(self) -> FetchResponse | Pending[FetchResponse]:
        """The response, later if some of it must be read from disk first."""
        for log, size in self._in_memory:
            self._count(log, size)
        if not self.disk_reads:
            return self.response
        pending = PendingInParts(self.response)
        broker, session = self._context.broker, self._context.session
        for partition, offset, disk_read, data, aborted in self.disk_reads:
            pending.expect_part()
            actor, rules = broker.read_actors.of_fetch(session, self._context.client_id, partition.topic_name)
            settle = partial(self._settle, pending, partition, data, offset, aborted)
            then = partial(self._meter, actor, rules, settle) if rules.quota else settle
            broker.disk_reads.read(disk_read, partition, offset, session, actor, rules, then)
        return pending.answer()

    def throttle(self) -> None:
        """Ask the client to pause: the node had no room for its fetch (KIP-219)."""
        self.response.throttle_time_ms = self._context.broker.settings.fetch_throttle_ms

    def _meter(
        self,
        actor: Actor,
        rules: ActorRules,
        settle: Continuation[list[memoryview]],
        outcome: list[memoryview] | HutongError,
    ) -> None:
        """Count what a group with a quota gets. The reader that goes over it pauses after this answer (KIP-219)."""
        if not isinstance(outcome, HutongError):
            broker, size = self._context.broker, sum(map(len, outcome))
            owed_ms = broker.disk_reads.owed_ms(actor, rules, size)
            if owed_ms:
                self.response.throttle_time_ms = max(self.response.throttle_time_ms, owed_ms)
                broker.meter.mute(self._context.session, owed_ms)
        settle(outcome)

    def _settle(
        self,
        pending: PendingInParts[FetchResponse],
        partition: Partition,
        data: PartitionData,
        offset: int,
        aborted: array[int] | None,
        outcome: list[memoryview] | HutongError,
    ) -> None:
        """Put the outcome of one disk read into the response."""
        if isinstance(outcome, Expired | LimitExceeded):
            # Without an error: clients would reset the partition for one, and it is only the node that is busy.
            self.throttle()
        elif isinstance(outcome, HutongError):
            _put_error(data, outcome)
        else:
            data.records = outcome
            self._count(partition.log, sum(map(len, outcome)))
            if aborted is not None:
                _put_aborted(data, aborted, offset, outcome)
        pending.settle_part()

    def _read(self, topic: FetchTopic, asked: FetchPartition, data: PartitionData) -> None:
        broker = self._context.broker
        partition = self._find(topic, asked)
        log = partition.log
        self.logs.append(log)
        if self._is_near and self._is_elsewhere(asked, partition, data):
            # Answered at once, as in Kafka: the client asks the other replica.
            self.has_error = True
            return
        if asked.last_fetched_epoch >= 0 and self._diverges(asked, partition, data):
            # KIP-595: the follower must truncate before it reads on, so it is answered at once.
            self.has_error = True
            return
        stable_offset = log.last_stable_offset
        is_committed = self._is_committed
        found = log.read(
            asked.fetch_offset,
            max(0, min(asked.partition_max_bytes, self._bytes_left - self.bytes_found)),
            # KIP-74: the first batch found is returned even over the limits, so that a large one blocks no reader.
            at_least_one=self.bytes_found == 0,
            up_to=stable_offset if is_committed else None,
            disk_bytes_max=self._disk_bytes_max,
        )
        data.high_watermark, data.last_stable_offset = log.high_watermark, stable_offset
        data.log_start_offset = log.start_offset
        data.aborted_transactions = aborted = None
        if is_committed:
            data.aborted_transactions = []
            if log.transactions is not None and log.transactions.aborted.reaches(asked.fetch_offset):
                # Taken now: a disk read ends later, when the log may know of more than these batches can have seen.
                aborted = log.transactions.aborted.rows()
        # As at the end of the log: the fetch waits for news, and its client asks again until the group is resumed.
        if broker.read_actors.has_suspended and self._is_suspended(partition.topic_name):
            data.records = []
            return
        if isinstance(found, DiskRead):
            data.records = []
            # Nothing of the partition counts then. The client asks again, for this partition before the others.
            if self._disk_bytes >= broker.disk_reads.answer_bytes_max(broker.settings.fetch_disk_bytes_max):
                return
            self.disk_reads.append((partition, asked.fetch_offset, found, data, aborted))
            self._disk_bytes += found.size
        else:
            data.records = found.buffers
            # Only what is sent counts as served; an empty read of a log at its end is no traffic.
            if found.size:
                self._in_memory.append((log, found.size))
            if aborted is not None:
                _put_aborted(data, aborted, asked.fetch_offset, found.buffers)
        self.bytes_found += found.size

    def _find(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        """The partition asked for. Raises Refused with Kafka's code for what is wrong with it."""
        topics = self._context.broker.topics
        if self._context.api_version >= IDS_FROM_VERSION:
            # KIP-516: an id does not outlive its topic, so a reader never gets the records of a new topic of the name.
            known = topics.by_id(topic.topic_id)
            if known is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            known = topics.get(topic.topic)
        # Before the partition is looked for: a client without READ must not learn which topics exist.
        if self._rights is not ReadRights.ALL:
            self._check_rights(topic.topic if known is None else known.name)
        partition = known.partition(asked.partition) if known is not None else None
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Messages that may yet be rolled back are for no reader, whatever its rights.
        if partition.is_internal and partition.topic_name in HALF_TOPICS:
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._is_near:
            partition.check_readable(asked.current_leader_epoch)
        else:
            partition.check_served(asked.current_leader_epoch)
        return partition

    def _put_leader(self, topic: FetchTopic, data: PartitionData) -> None:
        """Say where the partition is led now (KIP-951)."""
        from hutong.broker.handling.leaders import put_leader  # late: a node alone never needs it

        topics = self._context.broker.topics
        known = topics.by_id(topic.topic_id) or topics.get(topic.topic)
        partition = known.partition(data.partition_index) if known is not None else None
        if partition is not None:
            put_leader(data, partition.standing, self.response, self._context)

    def _is_elsewhere(self, asked: FetchPartition, partition: Partition, data: PartitionData) -> bool:
        """True if the client should ask a follower in its rack, which `data` then names (KIP-392)."""
        from hutong.broker.fetch.nearest_replica import check_held, nearest_follower  # late: a node alone has none

        if not partition.standing.is_led_here:
            check_held(partition, asked.fetch_offset)
            return False
        if not self._request.rack_id:
            return False
        follower = nearest_follower(partition, asked.fetch_offset, self._request.rack_id, self._context)
        if follower is None:
            return False
        log = partition.log
        data.high_watermark, data.log_start_offset = log.high_watermark, log.start_offset
        data.preferred_read_replica = follower
        data.aborted_transactions, data.records = None, []
        return True

    def _diverges(self, asked: FetchPartition, partition: Partition, data: PartitionData) -> bool:
        """True if the reader's last epoch ended before its offset (KIP-595); then `data` has the end of that epoch.

        The end of an earlier epoch may need the disk: one that is not known yet is wanted, and the pass made anew.
        """
        log, epoch, leader_epoch = partition.log, asked.last_fetched_epoch, partition.standing.leader_epoch
        # Nobody has led in a later epoch yet.
        if epoch > leader_epoch:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, "The end of the last fetched epoch is not known.")
        end: EpochEnd | HutongError | None = (epoch, log.high_watermark)
        if epoch < leader_epoch:
            end = self._epoch_ends.get((partition, epoch))
        if end is None:
            self.epochs_wanted = [*(self.epochs_wanted or ()), (partition, epoch)]
            return False
        if isinstance(end, HutongError):
            _put_error(data, end)
            return True
        # As in Kafka: what is earlier than the log is answered with the epoch that was asked for.
        end_epoch, end_offset = epoch if end[0] < 0 else end[0], end[1]
        # Behind the start the read answers OFFSET_OUT_OF_RANGE; up to the end of the same epoch nothing has diverged.
        if asked.fetch_offset < log.start_offset or (end_epoch == epoch and asked.fetch_offset <= end_offset):
            return False
        data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
        data.log_start_offset = log.start_offset
        data.diverging_epoch = EpochEndOffset(end_epoch, end_offset)
        data.aborted_transactions, data.records = None, []
        return True

    def _is_suspended(self, topic: str) -> bool:
        context = self._context
        return context.broker.read_actors.of_fetch(context.session, context.client_id, topic)[1].is_suspended

    def _check_rights(self, name: str) -> None:
        if self._rights is ReadRights.NONE or not may(self._context, Operation.READ, ResourceType.TOPIC, name):
            raise refusal(ResourceType.TOPIC)

    def _count(self, log: PartitionLog, size: int) -> None:
        """Count bytes of a log that a reader gets."""
        log.served_bytes += size
        self._context.broker.served_bytes_total += size


def _put_aborted(data: PartitionData, aborted: array[int], offset: int, buffers: list[memoryview]) -> None:
    """List the transactions whose records a committed reader must leave out of these batches."""
    found = aborted_between(aborted, offset, end_offset_of(buffers))
    data.aborted_transactions = [AbortedTransaction(producer_id, first_offset) for producer_id, first_offset in found]


def _put_error(data: PartitionData, error: HutongError) -> None:
    # CORRUPT_MESSAGE lets consumers report their position and skip the batch. KAFKA_STORAGE_ERROR would make them
    # look for another leader, silently and for ever.
    data.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptData) else error_code_of(error)
    data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
    data.aborted_transactions = [] if data.error_code in _NOT_THERE else None
    data.records = []
