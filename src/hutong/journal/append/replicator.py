"""The replicator's port: it ships the stream to the other nodes of a partition group and reports what they hold.

Strategy: the replicator and the flusher work on the same bytes, and neither waits for the other. `sealed` gives it the
end of the stream; it ships bytes from the cache at its own pace. It answers with one rising position: a majority of the
group's nodes, this one included, holds everything before it in memory. `Progress` draws the conclusions:
acknowledgements, the high watermark, and how long bytes stay in the cache.

Knows nothing of networks, terms or elections: an implementation does. A node alone is its own majority.
"""

from typing import Protocol

from hutong.foundation.errors import HutongError


class JournalStream(Protocol):
    """The newest part of the journal's byte stream. `journal/` implements it by its cache."""

    @property
    def end_position(self) -> int: ...

    def view(self, start: int, end: int) -> list[memoryview] | None:
        """The bytes between two positions; None where they have left the cache.

        They stay at least until they are committed, unless replication has failed meanwhile.
        """
        ...


class Commits(Protocol):
    """The receiver of a replicator's progress."""

    def committed(self, position: int) -> None:
        """A majority holds everything before `position`, which never decreases. Ends a failure."""
        ...

    def replication_failed(self, error: HutongError) -> None:
        """There is no majority: waits for one fail with `error`, until something is committed again."""
        ...


class Replicator(Protocol):
    """Ships one journal's stream. All calls come on the loop, and so must all answers."""

    def start(self, stream: JournalStream, commits: Commits) -> None:
        """Begin at the present end of the stream; recovery deals with everything before."""
        ...

    def sealed(self, end_position: int) -> None:
        """Note that the stream reaches to `end_position` now. May answer at once; must not block."""
        ...

    def stop(self) -> None:
        """Answer no more."""
        ...


class OwnMajority:
    """A node without others: what it holds in memory, a majority holds."""

    def __init__(self) -> None:
        self._commits: Commits | None = None

    def start(self, stream: JournalStream, commits: Commits) -> None:
        self._commits = commits

    def sealed(self, end_position: int) -> None:
        if self._commits is not None:
            self._commits.committed(end_position)

    def stop(self) -> None:
        self._commits = None
