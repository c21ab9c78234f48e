"""The replicator's port: it ships the stream to the other nodes of a partition group and reports what they hold.

Strategy: the replicator and the flusher work on the same bytes, and neither waits for the other. `sealed` gives it the
end of the stream; it ships bytes from the cache at its own pace. It answers with two rising positions of the other
in-sync replicas: all of them hold everything before the first in memory, and have everything before the second on their
disks. `Progress` draws the conclusions: acknowledgements, the high watermark, and how long bytes stay in the cache.

Knows nothing of networks, terms or elections: an implementation does. A node alone waits for nobody.
"""

from typing import Protocol

from hutong.foundation.errors import HutongError


class JournalStream(Protocol):
    """The newest part of the journal's byte stream. `journal/` implements it by its cache."""

    @property
    def end_position(self) -> int: ...

    def view(self, start: int, end: int) -> list[memoryview] | None:
        """The bytes between two positions; None where they have left the cache.

        They stay at least until they are replicated, unless replication has failed meanwhile.
        """
        ...


class ReplicationProgress(Protocol):
    """The receiver of a replicator's progress."""

    def replicated(self, held_position: int, stored_position: int) -> None:
        """The other replicas hold everything before the first in memory, and have all before the second on disk.

        Neither decreases. Ends a failure.
        """
        ...

    def replication_failed(self, error: HutongError) -> None:
        """There are too few replicas: waits for them fail with `error`, until something is replicated again."""
        ...


class Replicator(Protocol):
    """Ships one journal's stream. All calls come on the loop, and so must all answers."""

    def start(self, stream: JournalStream, progress: ReplicationProgress) -> None:
        """Begin at the present end of the stream; recovery deals with everything before."""
        ...

    def sealed(self, end_position: int) -> None:
        """Note that the stream reaches to `end_position` now. May answer at once; must not block."""
        ...

    def stop(self) -> None:
        """Answer no more."""
        ...


class NoOtherReplicas:
    """A node without others: nobody lacks what it has."""

    def __init__(self) -> None:
        self._progress: ReplicationProgress | None = None

    def start(self, stream: JournalStream, progress: ReplicationProgress) -> None:
        self._progress = progress

    def sealed(self, end_position: int) -> None:
        if self._progress is not None:
            self._progress.replicated(end_position, end_position)

    def stop(self) -> None:
        self._progress = None
