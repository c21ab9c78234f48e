"""Two journals of one partition group: a leader whose bytes are shipped by hand, and a replica that takes them."""

from collections.abc import Callable

from tests.unit.journal.stage import SMALL, Stage

from hutong.foundation.errors import Refused
from hutong.journal.append.replicator import JournalStream, ReplicationProgress
from hutong.journal.log import PartitionLog
from hutong.journal.settings import JournalSettings
from hutong.testing.disks.simulated import SimDisk
from hutong.wire.kafka.error_codes import ErrorCode

NOT_LEADER = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads.")


class Shipping:
    """A replicator by hand, for either role."""

    def __init__(self) -> None:
        self.sealed_position = 0
        self.on_sealed: Callable[[], None] = lambda: None

    def start(self, stream: JournalStream, progress: ReplicationProgress) -> None:
        self.stream = stream
        self.progress = progress

    def sealed(self, end_position: int) -> None:
        self.sealed_position = end_position
        self.on_sealed()

    def stop(self) -> None: ...


class ReplicaStage(Stage):
    """A journal with a number. It follows until `lead`."""

    def __init__(self, node: int, settings: JournalSettings = SMALL, disk: SimDisk | None = None) -> None:
        self.shipping = Shipping()
        super().__init__(settings, disk, self.shipping, NOT_LEADER, node)

    def lead(self, epoch: int) -> "ReplicaStage":
        assert self.node is not None
        self.journal.lead(epoch, self.node)
        return self

    def bytes_from(self, position: int) -> bytes:
        """The stream from a position on, which is still in the cache."""
        views = self.shipping.stream.view(position, self.journal.position)
        assert views is not None
        return b"".join(views)

    def stream_from(self, start: int, end: int) -> bytes:
        """The stream between two positions: from the files as far as they go, and from the cache."""
        flushed = max(start, min(end, self.journal.flushed_position))
        found = bytearray()
        for segment in self.journal._parts.segments.between(start, flushed) if start < flushed else ():
            first = max(start, segment.base_position)
            last = flushed if segment.end_position is None else min(flushed, segment.end_position)
            found += self.disk.open(segment.path).read(last - first, first - segment.base_position)
        views = self.shipping.stream.view(flushed, end)
        assert views is not None, "what is not flushed is in the cache"
        return bytes(found) + b"".join(views)

    def take_from(self, leader: "ReplicaStage") -> None:
        """Take everything that the leader has sealed."""
        position = self.journal.position
        self.journal.replica.append(position, leader.bytes_from(position))

    def commit(self, position: int | None = None) -> None:
        """Hear that the others have everything up to a position, by default all of it."""
        end = self.journal.position if position is None else position
        self.shipping.progress.replicated(end, end)


def state_of(log: PartitionLog) -> object:
    """Everything that a log knows of what was appended, apart from when."""
    producers = log.producers.items() if log.producers is not None else ()
    transactions = log.transactions
    return (
        (log.start_offset, log.end_offset, log.high_watermark, log.last_stable_offset),
        {number: (state.epoch, state.batches, state.coordinator_epoch) for number, state in producers},
        (list(transactions.open.items()), list(transactions.aborted.rows())) if transactions is not None else ([], []),
    )
