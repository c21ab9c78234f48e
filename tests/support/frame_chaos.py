"""A network between a client and a server that loses, doubles, delays and reorders frames, and keeps some for later.

Strategy: a proxy of whole frames (a length of four bytes, then so many), in both directions, on a loop and thread of
its own. A request may also come back long after, over a connection of nobody, when client and server are others
already: what it is answered then, nobody reads. All chance is of one seed.
"""

import asyncio
import random
import threading
from dataclasses import dataclass, field
from typing import Final

GHOSTS_MAX: Final = 64  # that are tried at a time
GHOST_TRIES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Weather:
    """Shares of frames (0 to 1) and times in seconds."""

    lost: float = 0.04
    doubled: float = 0.06
    delayed: float = 0.15
    delay_s_max: float = 0.25
    ghosts: float = 0.05  # requests that come back over another connection
    ghost_s_max: float = 6.0


@dataclass
class Figures:
    frames: int = 0
    lost: int = 0
    doubled: int = 0
    delayed: int = 0
    ghosts: int = 0
    connections: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in vars(self).items())


@dataclass
class FrameChaos:
    """Stands before the server at `server_port`; clients connect to `port`. Use in `with`."""

    server_port: int
    seed: int
    weather: Weather = Weather()
    figures: Figures = field(default_factory=Figures)
    port: int = 0

    def __enter__(self) -> "FrameChaos":
        self._chance = random.Random(self.seed)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="frame-chaos")
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ghosts = asyncio.Semaphore(GHOSTS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 24)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.figures.connections += 1
        writers = [writer]
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self.server_port, limit=1 << 24)
            writers.append(onward)
            pumps = [
                self._own(self._pump(reader, onward, is_request=True)),
                self._own(self._pump(there, writer, is_request=False)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
        except OSError:
            pass  # the server is away: so is the connection
        finally:
            for each in writers:
                each.close()
            self._tasks.discard(task)

    def _own(self, coroutine: "asyncio.Future[None] | object") -> "asyncio.Task[None]":
        task: asyncio.Task[None] = self._loop.create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool) -> None:
        try:
            while True:
                length = await reader.readexactly(4)
                self._pass_on(length + await reader.readexactly(int.from_bytes(length, "big")), writer, is_request)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass

    def _pass_on(self, frame: bytes, writer: asyncio.StreamWriter, is_request: bool) -> None:
        weather, figures, chance = self.weather, self.figures, self._chance
        figures.frames += 1
        if is_request and chance.random() < weather.ghosts:
            figures.ghosts += 1
            self._own(self._haunt(frame, chance.random() * weather.ghost_s_max))
        if chance.random() < weather.lost:
            figures.lost += 1
            return
        copies = 1
        if chance.random() < weather.doubled:
            figures.doubled += 1
            copies = 2
        for copy in range(copies):
            if copy or chance.random() < weather.delayed:
                figures.delayed += 1
                self._loop.call_later(chance.random() * weather.delay_s_max, _write, writer, frame)
            else:
                writer.write(frame)

    async def _haunt(self, frame: bytes, after_s: float) -> None:
        for _ in range(GHOST_TRIES_MAX):
            await asyncio.sleep(after_s)
            try:
                async with self._ghosts:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.server_port)
                    writer.write(frame)
                    await asyncio.wait_for(reader.read(1), 10)
                    writer.close()
                    return
            except (OSError, TimeoutError):
                after_s = 0.2


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    if not writer.is_closing():
        writer.write(frame)
