"""Worker processes of one app: started, started again when they die, and drained together.

Strategy: each worker is `hutong run` of one process, in a session of its own, so that Ctrl-C reaches the supervisor
alone. SIGTERM asks all workers to drain; a second one ends them. The module is imported by workers only: what they run
is always what the files say.

Knows nothing of handlers.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hutong.cli.cluster.supervisor import die_with_parent
from hutong.cli.output import remark
from hutong.foundation.errors import ExitCode

WATCH_S: Final = 0.5
RESTART_S_MIN: Final = 0.5
RESTART_S_MAX: Final = 30.0
STEADY_S: Final = 10.0  # a worker that lived so long did not fail at its start
# Starting again would fail in the same way: somebody has to change something.
HOPELESS: Final = frozenset({ExitCode.USAGE, ExitCode.NOINPUT, ExitCode.UNAVAILABLE, ExitCode.CONFIG})


class WorkerProcesses:
    """`count` processes of `command`. `changed` lists files that have changed since the last call, for --reload."""

    def __init__(self, command: Sequence[str], count: int, changed: Callable[[], list[str]] | None) -> None:
        self._command = [sys.executable, "-m", "hutong", *command]
        self._count = count
        self._changed = changed
        self._running: dict[asyncio.Task[int], asyncio.subprocess.Process] = {}
        self._born: dict[asyncio.Task[int], float] = {}
        self._restart_s = RESTART_S_MIN
        self._loop = asyncio.get_running_loop()

    async def run(self, stopping: asyncio.Event, killing: asyncio.Event) -> int:
        """Run until `stopping`; then drain, until `killing`. Returns the exit code."""
        stop = self._loop.create_task(stopping.wait())
        code: int = 0
        await self._start(self._count)
        while not stopping.is_set():
            waits = {stop, *self._running}
            timeout = WATCH_S if self._changed is not None else None
            done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in done if task is not stop]
            code = await self._after(ended, stopping)
            if code and not self._running and self._changed is None:
                break
            if self._changed is not None and (paths := self._changed()):
                remark(f"hutong: {paths[0]} has changed; the workers start again.")
                await self._drain(killing)
                await self._start(self._count)
        stop.cancel()
        await self._drain(killing)
        return code

    async def _after(self, ended: "Sequence[asyncio.Task[int]]", stopping: asyncio.Event) -> int:
        """Start ended workers again; where that is hopeless, drain all and return the code."""
        for task in ended:
            process = self._running.pop(task)
            code = task.result()
            lived_s = self._loop.time() - self._born.pop(task)
            if stopping.is_set():
                continue
            if code in HOPELESS:
                # With --reload a change of the files may mend it.
                if self._changed is None:
                    await self._drain(stopping)
                    return code
                remark("hutong: waiting for a change of the files.")
                continue
            if lived_s >= STEADY_S:
                self._restart_s = RESTART_S_MIN
            remark(f"hutong: the worker {process.pid} ended with {code}; another starts in {self._restart_s:g} s.")
            await _wait(stopping, self._restart_s)
            self._restart_s = min(2 * self._restart_s, RESTART_S_MAX)
            if not stopping.is_set():
                await self._start(1)
        return 0

    async def _start(self, count: int) -> None:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *self._command, start_new_session=True, preexec_fn=die_with_parent
            )
            task = self._loop.create_task(process.wait())
            self._running[task] = process
            self._born[task] = self._loop.time()

    async def _drain(self, killing: asyncio.Event) -> None:
        """Ask all to end and wait for them; end them if `killing` is set meanwhile."""
        for task, process in self._running.items():
            if not task.done():
                process.terminate()
        kill = self._loop.create_task(killing.wait())
        while left := [task for task in self._running if not task.done()]:
            done, _ = await asyncio.wait({kill, *left}, return_when=asyncio.FIRST_COMPLETED)
            if kill in done:
                for task in left:
                    if not task.done():
                        self._running[task].kill()
                await asyncio.wait(left)
        kill.cancel()
        self._running.clear()
        self._born.clear()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
