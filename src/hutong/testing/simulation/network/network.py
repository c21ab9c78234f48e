"""The network between hosts: names, listening sockets, new connections, and the state of each link.

Strategy: a link is a pair of hosts in one direction. It has a latency, drawn anew for each segment, and may be cut:
then segments are sent again, later and later, as TCP does, until the link is back or the sender gives up. Connections
themselves are in `connections`.

Knows nothing of what is sent.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from random import Random
from typing import Any, Final

from hutong.testing.simulation.hosts.host import SimHost, SimProcess
from hutong.testing.simulation.network.connections import SimEndpoint
from hutong.testing.simulation.network.listening import SimListener
from hutong.testing.simulation.world import World

LATENCY_US: Final = 100  # at least, between two hosts
LATENCY_SPREAD_US: Final = 400
CONNECT_TIMEOUT_US: Final = 10_000_000
CONNECT_RETRY_US: Final = 1_000_000
_FIRST_PORT: Final = 32_768


class SimNetwork:
    """All hosts of one world and what connects them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connections: list[SimEndpoint] = []  # the client's ends of those that are open, oldest first
        self._randoms: dict[tuple[str, str], Random] = {}  # by link: a client more changes nothing for others
        self._hosts: dict[str, SimHost] = {}
        self._addresses: dict[str, str] = {}  # by name
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._ports = _FIRST_PORT
        self._cut: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], int] = {}  # factor of the latency
        self._held: set[tuple[str, str]] = set()

    def add_host(self, host: SimHost) -> None:
        self._hosts[host.address] = host
        self._addresses[host.name] = host.address

    # -- links

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other, by their names, until `mend`."""
        self._cut.add((self._addresses[source], self._addresses[target]))

    def slow_down(self, source: str, target: str, factor: int) -> None:
        self._slow[(self._addresses[source], self._addresses[target])] = factor

    def hold(self, source: str, target: str) -> None:
        """Keep all that is on its way from one host to the other, in its order, until `mend`. Nothing is lost."""
        self._held.add((self._addresses[source], self._addresses[target]))

    def mend(self, source: str, target: str) -> None:
        link = (self._addresses[source], self._addresses[target])
        self._cut.discard(link)
        self._held.discard(link)
        self._slow.pop(link, None)

    def passes(self, source: str, target: str) -> bool:
        """True while segments from one address arrive at the other."""
        return (source, target) not in self._cut and target in self._hosts

    def holds(self, source: str, target: str) -> bool:
        """True while segments from one address wait on their way to the other."""
        return (source, target) in self._held

    def latency_us(self, source: str, target: str) -> int:
        random = self._randoms.get((source, target))
        if random is None:
            random = self._randoms[(source, target)] = self.world.random(f"link {source} {target}")
        drawn_us = LATENCY_US + int(LATENCY_SPREAD_US * random.random() ** 4)
        return drawn_us * self._slow.get((source, target), 1)

    # -- names and sockets

    def resolve(self, own: SimHost, host: str | None, port: int) -> list[tuple[Any, Any, int, str, tuple[str, int]]]:
        address = own.address if host is None else self._addresses.get(host, host)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

    def socket_of(self, process: SimProcess) -> Callable[[int, int, int], Any]:
        """Return the maker of listening sockets for this process, in the place of `socket.socket`."""
        return lambda _family, _kind, _protocol: SimListener(self, process)

    def listen(self, listener: SimListener, address: str, port: int) -> int:
        """Bind it; returns the port. Raises OSError."""
        if not port:
            self._ports += 1
            port = self._ports
        # As in Linux without SO_REUSEPORT: also while another process of the same host listens.
        if (address, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._listeners[(address, port)] = listener
        return port

    def unlisten(self, address: str, port: int) -> None:
        self._listeners.pop((address, port), None)

    # -- connections

    def connect(
        self, process: SimProcess, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> "asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]]":
        """Open one; the future fails with OSError where nobody listens or nobody answers."""
        address = self._addresses.get(host, host)
        future = process.loop.create_future()
        _Dial(self, process, future, make, (address, port)).send()
        return future

    def process_ended(self, host: SimHost, *, sends_reset: bool) -> None:
        """Drop what a dead process listened on and was connected by."""
        for place in [place for place, listener in self._listeners.items() if listener.process.host is host]:
            del self._listeners[place]
        for endpoint in [*self.connections]:
            for end in (endpoint, endpoint.peer):
                if end.process.host is host and not end.process.is_alive:
                    end.owner_died(sends_reset=sends_reset)

    def next_port(self) -> int:
        self._ports += 1
        return self._ports

    def listener_at(self, place: tuple[str, int]) -> SimListener | None:
        return self._listeners.get(place)

    def opened(self, endpoint: SimEndpoint) -> None:
        self.connections.append(endpoint)

    def closed(self, endpoint: SimEndpoint) -> None:
        if endpoint in self.connections:
            self.connections.remove(endpoint)


class _Dial:
    """One attempt to connect, with its retries."""

    def __init__(
        self,
        network: SimNetwork,
        process: SimProcess,
        future: "asyncio.Future[Any]",
        make: Callable[[], asyncio.BaseProtocol],
        place: tuple[str, int],
    ) -> None:
        self._network = network
        self._process = process
        self._future = future
        self._make = make
        self._place = place
        self._from = process.host.address
        self._ends_at_us = network.world.now_us + CONNECT_TIMEOUT_US

    def send(self) -> None:
        """Send the first segment, or send it again."""
        network, world = self._network, self._network.world
        if not self._process.is_alive or self._future.done():
            return
        if world.now_us >= self._ends_at_us:
            self._end(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
        elif network.passes(self._from, self._place[0]) and not network.holds(self._from, self._place[0]):
            world.after(network.latency_us(self._from, self._place[0]), self._reached)
        else:
            world.after(CONNECT_RETRY_US, self.send)

    def _reached(self) -> None:
        network, world = self._network, self._network.world
        back_us = network.latency_us(self._place[0], self._from)
        # The way back may be cut although the way there is not.
        if not network.passes(self._place[0], self._from):
            world.after(CONNECT_RETRY_US, self.send)
            return
        listener = network.listener_at(self._place)
        if listener is None:
            world.after(back_us, lambda: self._end(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")))
        elif not listener.has_room:
            world.after(CONNECT_RETRY_US, self.send)  # the kernel drops it silently
        else:
            ours = SimEndpoint(network, self._process, (self._from, network.next_port()))
            theirs = SimEndpoint(network, listener.process, self._place)
            ours.pair(theirs)
            # From here on the other host knows the connection, and resets it when its process dies.
            network.opened(ours)
            listener.offer(theirs)
            world.after(back_us, lambda: self._established(ours))

    def _established(self, ours: SimEndpoint) -> None:
        if not self._process.is_alive or self._future.done():
            ours.owner_died(sends_reset=True)
            return
        task = self._process.loop.create_task(ours.attach(self._process.loop, self._make()))
        task.add_done_callback(self._attached)

    def _attached(self, task: "asyncio.Task[Any]") -> None:
        if not self._future.done():
            self._future.set_result(task.result())

    def _end(self, error: OSError) -> None:
        if self._process.is_alive and not self._future.done():
            self._future.set_exception(error)
