"""The tie between a journal and the present role of its replica: the replicator's port, for both roles.

Strategy: a journal keeps one replicator for its life, while roles come and go. So the tie passes on what the journal
says to the role that listens, and has the stream's progress for the answers.

Knows nothing of roles.
"""

from collections.abc import Callable

from hutong.journal.append.replicator import JournalStream, ReplicationProgress


def _ignore() -> None:
    """Nobody listens."""


class JournalTie:
    """The replicator of one open journal. `on_sealed` is called when its stream has grown by chunks of its own."""

    progress: ReplicationProgress

    def __init__(self) -> None:
        self.on_sealed: Callable[[], None] = _ignore

    def start(self, stream: JournalStream, progress: ReplicationProgress) -> None:
        self.progress = progress

    def sealed(self, end_position: int) -> None:
        self.on_sealed()

    def stop(self) -> None:
        self.on_sealed = _ignore
