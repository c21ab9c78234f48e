"""A world with two hosts, and protocols that note what happens to them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hutong.testing.simulation.hosts.host import SimHost, SimProcess
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.world import World

SECOND_US = 1_000_000


class Noting(asyncio.Protocol):
    """Notes what its transport tells it."""

    def __init__(self) -> None:
        self.received = b""
        self.lost: list[Exception | None] = []
        self.calls: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return False

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Scene:
    """`one` and `other` are hosts, each with a process."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, keeps_trace=True)
        self.network = SimNetwork(self.world)
        self.one = SimHost(self.world, self.network, "one", "127.9.0.1")
        self.other = SimHost(self.world, self.network, "other", "127.9.0.2")
        self.one.start()
        self.other.start()

    def process(self, host: SimHost) -> SimProcess:
        assert host.process is not None
        return host.process

    def run(self, host: SimHost, main: Callable[[], Coroutine[Any, Any, Any]], seconds: float = 60) -> Any:
        """The result of a coroutine on the host's loop."""
        task = self.process(host).run(main)
        self.pass_seconds(seconds, task.done)
        return task.result()

    def pass_seconds(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> None:
        self.world.run(self.world.now_us + int(seconds * SECOND_US), is_done)

    def listen(self, port: int = 9, backlog: int = 10) -> list[Noting]:
        """Listen on `other`; returns the protocols of the connections that it takes."""
        taken: list[Noting] = []
        process = self.process(self.other)
        listener = self.network.socket_of(process)(0, 0, 0)
        listener.bind((self.other.address, port))
        listener.listen(backlog)

        def accept() -> None:
            connection, _ = listener.accept()
            taken.append(Noting())
            process.run(lambda: process.loop.connect_accepted_socket(lambda: taken[-1], connection))

        process.loop.add_reader(listener, accept)
        return taken

    def connect(self, port: int = 9, seconds: float = 60) -> Noting:
        """Connect from `one`. Raises OSError."""
        _, protocol = self.run(
            self.one, lambda: self.process(self.one).loop.create_connection(Noting, self.other.address, port), seconds
        )
        assert isinstance(protocol, Noting)
        return protocol

    def pair(self) -> tuple[Noting, Noting]:
        """The ends of a connection: that of `one`, that of `other`."""
        taken = self.listen()
        ours = self.connect()
        self.pass_seconds(1, lambda: bool(taken) and hasattr(taken[0], "transport"))
        return ours, taken[0]
