"""The leader epochs of a journal's stream: where the chunks of each begin, and which node wrote them.

    epoch      3                 5            6
    stream     [ chunk chunk ... | chunk ...  | chunk ... )
    position   0                 9,400        11,200      end

Strategy: a few rows, rising in both numbers. Two replicas have the same bytes as far as their rows agree, because one
node alone writes in an epoch. So the end of an epoch tells where to cut what another leader never had (KIP-101, with
the repeated question of KIP-279).

Knows nothing of replicas.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from hutong.journal.format import chunk

NOBODY: Final = -1
"""The node of an epoch of which only chunks are known, and not how it began."""


class EpochStart(NamedTuple):
    """The first chunk of an epoch."""

    epoch: int
    position: int
    node: int = NOBODY


def epoch_node(header: chunk.Chunk) -> int:
    """The node that begins an epoch with this chunk, NOBODY where it begins none."""
    return next((run.partition_id for run in header.runs() if run.kind == chunk.EPOCH_BEGUN), NOBODY)


class LeaderEpochs:
    """All epochs that the stream has chunks of, oldest first."""

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts = list(starts)

    def starts(self) -> list[EpochStart]:
        return list(self._starts)

    @property
    def last(self) -> int:
        """The newest epoch, -1 while there is no chunk."""
        return self._starts[-1].epoch if self._starts else -1

    def last_before(self, position: int) -> int:
        """The epoch of the last chunk before a position, -1 where there is none: a list may name an epoch without."""
        return next((start.epoch for start in reversed(self._starts) if start.position < position), -1)

    def note(self, epoch: int, position: int, node: int = NOBODY) -> None:
        """Note a chunk; only the first of its epoch counts."""
        if epoch > self.last:
            self._starts.append(EpochStart(epoch, position, node))

    def end_of(self, epoch: int, end_position: int) -> tuple[int, int]:
        """The greatest epoch here that is not after `epoch`, and the position where its chunks end.

        `end_position` is the stream's end. Without such an epoch the answer is (-1, 0).
        """
        number = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        if not number:
            return -1, 0
        end = self._starts[number].position if number < len(self._starts) else end_position
        return self._starts[number - 1].epoch, end

    def node_of(self, epoch: int) -> int:
        """The node that wrote in that epoch, NOBODY where that is unknown."""
        return next((start.node for start in self._starts if start.epoch == epoch), NOBODY)
