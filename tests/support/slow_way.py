"""A way to a server on which every byte is late: a port of its own, whose connections are passed on after a while.

Strategy: a thread with a loop of its own, so that tests may block. Each direction keeps its order.

Knows nothing of what is sent.
"""

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Final, Self

READ_BYTES_MAX: Final = 64 * 1024


class SlowWay:
    """`with SlowWay("127.0.0.1:2181") as way`; `address` is its own, `delay_s` that of either direction."""

    def __init__(self, to: str) -> None:
        self.delay_s = 0.0
        self.address = ""
        self._host, _, self._port = to.rpartition(":")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.address = f"{self._host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, self._host, 0)

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, there = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self._pass(reader, there), self._pass(back, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(late, writer))
        try:
            with contextlib.suppress(OSError):
                while content := await reader.read(READ_BYTES_MAX):
                    late.put_nowait((self._loop.time() + self.delay_s, content))
            late.put_nowait((self._loop.time() + self.delay_s, b""))
            await writing
        finally:
            writing.cancel()
            writer.transport.abort()

    async def _write(self, late: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        while True:
            due_s, content = await late.get()
            await asyncio.sleep(due_s - self._loop.time())
            if not content:
                return
            writer.write(content)
