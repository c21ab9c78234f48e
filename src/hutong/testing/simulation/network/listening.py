"""A listening socket: the part of `socket.socket` that an acceptor uses."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.network.connections import SimEndpoint

if TYPE_CHECKING:
    from hutong.testing.simulation.network.network import SimNetwork

_DESCRIPTOR: Final = 5  # far from any bound


class SimListener:
    """Bound, then listening. Connections wait in its queue until they are accepted."""

    def __init__(self, network: "SimNetwork", process: SimProcess) -> None:
        self.process = process
        self._network = network
        self._place = ("", 0)
        self._queue: deque[SimEndpoint] = deque()
        self._backlog = 0
        self._callback: Callable[[], None] | None = None
        self._is_marked = False
        self._is_closed = False

    # -- the acceptor's side

    def setsockopt(self, *_: object) -> None: ...

    def setblocking(self, _: bool) -> None: ...

    def bind(self, place: tuple[str, int]) -> None:
        self._place = (place[0], self._network.listen(self, place[0], place[1]))

    def listen(self, backlog: int) -> None:
        self._backlog = backlog

    def getsockname(self) -> tuple[str, int]:
        return self._place

    def fileno(self) -> int:
        return -1 if self._is_closed else _DESCRIPTOR

    def accept(self) -> tuple[SimEndpoint, tuple[str, int]]:
        if not self._queue:
            raise BlockingIOError
        endpoint = self._queue.popleft()
        return endpoint, endpoint.peer.place

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._network.unlisten(*self._place)
            while self._queue:
                self._queue.popleft().close()

    # -- the loop's and the network's side

    def watch(self, callback: Callable[[], None] | None) -> bool:
        had, self._callback = self._callback is not None, callback
        self._mark()
        return had

    @property
    def has_room(self) -> bool:
        return len(self._queue) < self._backlog

    def offer(self, endpoint: SimEndpoint) -> None:
        self._queue.append(endpoint)
        self._mark()

    def arrived(self) -> None:
        self._is_marked = False
        if self._callback is not None:
            self._callback()
            self._mark()  # as long as connections wait, a poll reports them again

    def _mark(self) -> None:
        if self._queue and self._callback is not None and not self._is_marked:
            self._is_marked = True
            self.process.loop.has_arrived(self)
