"""Files of the leader's journal for followers that need what the stream lacks.

Strategy: each follower has a list of its own, because the checkpoint in it is another one each time. It asks for one
part after the other, so nothing is sent that was not asked for. What fails is answered with nothing: the follower asks
for the files again, and keeps those that it has.

Knows nothing of how followers store them.
"""

import itertools

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import HutongError
from hutong.journal.replicate.segment_files import FileListing, SegmentFiles
from hutong.replication.links import ReplicaLinks
from hutong.replication.replica_messages import FilePartAsked, FilePartShipped, FilesAsked, FilesListed
from hutong.replication.settings import ReplicationSettings
from hutong.wire.buffer import Buffer


class FileService:
    """The files of one group, while one leader leads it."""

    def __init__(
        self, group: str, epoch: int, files: SegmentFiles, links: ReplicaLinks, settings: ReplicationSettings
    ) -> None:
        self._group = group
        self._epoch = epoch
        self._files = files
        self._links = links
        self._settings = settings
        self._listings: dict[int, tuple[int, FileListing]] = {}  # the newest of each node, with its number
        self._numbers = itertools.count(1)

    def told(self, node: int, message: FilesAsked | FilePartAsked) -> None:
        """Answer a follower."""
        if isinstance(message, FilesAsked):
            self._files.list_files(lambda outcome: self._listed(node, outcome))
            return
        number, listing = self._listings.get(node, (0, None))
        if listing is None or number != message.listing:
            self._ship(node, message, b"")
            return
        bytes_max = self._settings.ship_bytes_max
        self._files.read_part(
            listing,
            message.name,
            message.start,
            bytes_max,
            lambda outcome: self._ship(node, message, b"" if isinstance(outcome, HutongError) else outcome),
        )

    def leave(self, node: int) -> None:
        """Forget the follower's list."""
        self._listings.pop(node, None)

    def _listed(self, node: int, outcome: FileListing | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._links.send(node, FilesListed(self._group, self._epoch, 0, 0, b""))
            return
        number = next(self._numbers)
        self._listings[node] = number, outcome
        lines = "\n".join(f"{name} {size}" for name, size in outcome.sizes.items()).encode()
        self._links.send(node, FilesListed(self._group, self._epoch, number, outcome.position, lines))

    def _ship(self, node: int, asked: FilePartAsked, content: Buffer) -> None:
        checksum = crc32c(content)
        part = FilePartShipped(self._group, self._epoch, asked.listing, asked.name, asked.start, checksum, content)
        self._links.send(node, part)
