"""The port to the owner of a replica: what happens to its group."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from hutong.foundation.errors import HutongError
from hutong.journal.append.replicator import Replicator
from hutong.journal.journal import Journal
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.leading.messages import ProposeSet

OpenJournal = Callable[[str, Replicator, HutongError], Awaitable[Journal]]
"""Called with a group, its replicator, and the refusal of appends while it follows. Raises StorageError."""


class ReplicaEvents(Protocol):
    """The receiver of news of one replica. All calls come on the loop."""

    def journal_opened(self, group: str, journal: Journal) -> None:
        """Note the journal: the first one, and another one after each reopening. It follows until `led`."""

    def led(self, group: str, epoch: int) -> None:
        """Note that this node leads, and can read all that was committed before. Once for each epoch."""

    def stepped_down(self, group: str) -> None:
        """Note that this node does not lead any more: appends fail from here on. Another journal may follow."""

    def committed(self, group: str, position: int) -> None:
        """Note that everything before the position is committed, and can be read here."""

    def propose(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        """Ask the cluster for another in-sync set.

        The answer is a newer state, or `GroupReplica.proposal_refused`, which says that the cluster will never take
        it. An outcome that is unknown is no refusal: ask again, with the same proposal.
        """

    def journal_failed(self, group: str, error: HutongError) -> None:
        """Note that the journal failed for good, or cannot be opened. This node neither leads nor follows any more."""
