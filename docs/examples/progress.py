"""A long job that reports its progress to its caller, in another process.

python docs/examples/progress.py serve 127.0.0.1:7070
python docs/examples/progress.py import 127.0.0.1:7070
"""

import asyncio
import sys
from typing import Protocol

import hutong
from hutong.rpc import connect, service


@service("progress")
class Progress(Protocol):
    async def report(self, done: int, of: int) -> bool:
        """Return True to go on, False to stop the job."""
        ...


@service("imports")
class Imports(Protocol):
    async def run(self, rows: int, progress: Progress | None = None) -> int: ...


class Importer:
    """The service."""

    async def run(self, rows: int, progress: Progress | None = None) -> int:
        for done in range(25, rows + 1, 25):
            await asyncio.sleep(0.01)  # the work
            if progress is not None and not await progress.report(done, rows):
                return done
        return rows


class Bar:
    """The caller's object. Its methods run in the caller's process, while the call waits."""

    async def report(self, done: int, of: int) -> bool:
        print(f"{done} of {of}")
        return done < 75


async def serve(address: str) -> None:
    async with hutong.Node(rpc=address) as node:
        await node.rpc.bind(Imports, Importer())
        print(node.rpc_address, flush=True)
        await asyncio.Event().wait()


async def run_import(address: str) -> None:
    async with connect(address) as client:
        imported = await client.proxy(Imports).run(100, Bar())
    print(f"imported {imported} rows")


if __name__ == "__main__":
    role, place = sys.argv[1:]
    asyncio.run(serve(place) if role == "serve" else run_import(place))
