"""Commands to a cluster of this machine while it runs: one line of JSON there, one back, over a Unix socket.

Strategy: the socket's name is that of the user, so that `hutong cluster dev kill 2` finds the one cluster that its user
has started, and nobody else may open it.

Knows nothing of nodes.
"""

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from hutong.foundation.errors import ExitCode, UsageError

LINE_BYTES_MAX: Final = 64 * 1024
ANSWER_S_MAX: Final = 90.0

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def socket_path() -> Path:
    """The socket of this user's cluster."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"hutong-cluster-dev-{os.getuid()}.sock"


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[None]:
    """Answer commands while the context is open. Raises UsageError where another cluster answers already."""
    path = socket_path()
    if is_answered(path):
        raise UsageError("A cluster of yours runs already; `hutong cluster dev end` ends it.", ExitCode.TEMPFAIL)
    path.unlink(missing_ok=True)  # of one that was killed

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            line = await reader.readline()
            # A line that was cut off or is no JSON comes from no command of ours.
            try:
                asked = json.loads(line)
            except ValueError:
                return
            writer.write(json.dumps(await answer(asked)).encode() + b"\n")
            await writer.drain()

    server = await asyncio.start_unix_server(serve, path, limit=LINE_BYTES_MAX)
    path.chmod(0o600)  # a command can kill nodes
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def is_answered(path: Path) -> bool:
    """Return True if somebody listens there."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as client:
        return client.connect_ex(str(path)) == 0


def ask(command: dict[str, Any]) -> dict[str, Any]:
    """Send a command to the running cluster, and return its answer. Raises UsageError where none runs, or refuses."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as client:
        client.settimeout(ANSWER_S_MAX)
        if client.connect_ex(str(socket_path())) != 0:
            raise UsageError("No cluster of yours runs here; `hutong cluster dev` starts one.", ExitCode.UNAVAILABLE)
        client.sendall(json.dumps(command).encode() + b"\n")
        with client.makefile("rb") as answers:
            line = answers.readline(LINE_BYTES_MAX)
    answer: dict[str, Any] = json.loads(line) if line else {"error": "the cluster ended meanwhile"}
    if "error" in answer:
        raise UsageError(f"{answer['error']}.", ExitCode.UNAVAILABLE)
    return answer
