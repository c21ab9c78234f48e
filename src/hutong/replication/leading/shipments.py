"""The chunks that are on their way from a leader to its followers.

Strategy: one message at a time is made for each follower, from the cache or by a worker. As many messages are sent as
a bound of bytes allows that the follower does not hold yet, and a further bound of those it has not stored yet: a
follower whose disk is slow would refuse more than that. An acknowledgement lets the next one go. What one that is not
in sync gets from the disk goes at the pace of copies; the newest chunks are in the cache, and go at once. Each message
says what is committed as well, so that only a commit that no chunk follows needs a message of its own.
"""

from collections.abc import Callable

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.pace import BytePace
from hutong.foundation.timers import TimerWheel
from hutong.journal.replicate.stream_reads import StreamGone, StreamReads
from hutong.replication.links import ReplicaLinks
from hutong.replication.replica_messages import ChunksShipped, CommitTold, FilesOffered
from hutong.replication.settings import ReplicationSettings
from hutong.wire.buffer import Buffer


class _Receiver:
    """One follower in one connection. `next_position` is what it is to get next, None while it has everything.

    The newest message to it says that everything before `told_position` is committed.
    """

    __slots__ = ("held_position", "is_reading", "next_position", "node", "stored_position", "told_position")

    def __init__(self, node: int, position: int) -> None:
        self.node = node
        self.next_position: int | None = None
        self.held_position = position
        self.stored_position = position
        self.told_position = 0
        self.is_reading = False


class Shipments:
    """All that one leader has on its way in one epoch. `on_shipped` gets node, start and end of each message."""

    def __init__(
        self,
        group: str,
        epoch: int,
        reads: StreamReads,
        links: ReplicaLinks,
        clock: Clock,
        timers: TimerWheel,
        settings: ReplicationSettings,
        on_shipped: Callable[[int, int, int], None],
        pace: BytePace,
        is_paced: Callable[[int], bool],
        committed_position: Callable[[], int],
    ) -> None:
        self._group = group
        self._epoch = epoch
        self._reads = reads
        self._links = links
        self._clock = clock
        self._timers = timers
        self._settings = settings
        self._on_shipped = on_shipped
        self._pace = pace
        self._is_paced = is_paced
        self._committed_position = committed_position
        self._receivers: dict[int, _Receiver] = {}
        self._shared: tuple[int, bytes] = (0, b"")  # the newest message from the cache: others get the same

    def join(self, node: int, position: int) -> None:
        """Begin anew with a follower whose stream ends at a position; what was being read for it is dropped."""
        self._receivers[node] = _Receiver(node, position)

    def leave(self, node: int) -> None:
        """Send it nothing more."""
        self._receivers.pop(node, None)

    def end(self) -> None:
        """Send nothing more to anybody."""
        self._receivers.clear()

    def ship(self, node: int, start: int) -> None:
        """Send chunks from `start` on, now or once the follower may get more."""
        receiver = self._receivers.get(node)
        if receiver is not None:  # its connection may have ended meanwhile
            receiver.next_position = start
            self._continue(receiver)

    def acknowledged(self, node: int, held_position: int, stored_position: int) -> None:
        receiver = self._receivers.get(node)
        if receiver is not None:
            receiver.held_position = max(receiver.held_position, held_position)
            receiver.stored_position = max(receiver.stored_position, stored_position)
            self._continue(receiver)

    def is_told(self, position: int) -> bool:
        """True if all that are connected know that everything before the position is committed."""
        return all(receiver.told_position >= position for receiver in self._receivers.values())

    def tell_committed(self) -> None:
        """Tell those who do not know it how far everything is committed."""
        position = self._committed_position()
        for receiver in self._receivers.values():
            if receiver.told_position < position:
                receiver.told_position = position
                self._links.send(receiver.node, CommitTold(self._group, self._epoch, position))

    def _continue(self, receiver: _Receiver) -> None:
        start, settings = receiver.next_position, self._settings
        if start is None or receiver.is_reading or self._receivers.get(receiver.node) is not receiver:
            return
        if start - receiver.held_position >= settings.shipped_bytes_max:
            return
        if start - receiver.stored_position >= settings.unstored_bytes_max:
            return
        content = self._cached(start)
        if content is not None:
            self._send(receiver, start, content)
            return
        receiver.is_reading = True
        self._read_when_due(receiver, start)

    def _read_when_due(self, receiver: _Receiver, start: int) -> None:
        if self._receivers.get(receiver.node) is not receiver:
            return
        now_ms = self._clock.monotonic_ms()
        due_ms = self._pace.due_ms(now_ms) if self._is_paced(receiver.node) else now_ms
        if due_ms > now_ms:
            # Looked at again then: another copy may have come first. And sooner, as the rate may have been altered.
            at_ms = min(due_ms, now_ms + self._settings.paced_look_ms)
            self._timers.add(at_ms, lambda: self._read_when_due(receiver, start))
            return
        self._reads.read(start, self._settings.ship_bytes_max, lambda outcome: self._read(receiver, start, outcome))

    def _cached(self, start: int) -> bytes | None:
        known_start, known = self._shared
        if known_start == start and known:
            return known
        content = self._reads.cached(start, self._settings.ship_bytes_max)
        if content:
            self._shared = start, content
        return content

    def _read(self, receiver: _Receiver, start: int, outcome: Buffer | HutongError) -> None:
        receiver.is_reading = False
        if self._receivers.get(receiver.node) is not receiver:
            return
        if not isinstance(outcome, HutongError):
            if self._is_paced(receiver.node):
                self._pace.count(len(outcome), self._clock.monotonic_ms())
            self._send(receiver, start, outcome)
        elif isinstance(outcome, StreamGone):
            receiver.next_position = None  # it copies files, and joins anew
            self._links.send(receiver.node, FilesOffered(self._group, self._epoch, start))
        else:
            # The disk may be short of something, and this place may be read again later.
            self._timers.add(
                self._clock.monotonic_ms() + self._settings.ship_again_ms, lambda: self._continue(receiver)
            )

    def _send(self, receiver: _Receiver, start: int, content: Buffer) -> None:
        receiver.next_position = None
        receiver.told_position = committed_position = self._committed_position()
        self._links.send(receiver.node, ChunksShipped(self._group, self._epoch, start, committed_position, content))
        self._on_shipped(receiver.node, start, start + len(content))
