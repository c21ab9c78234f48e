"""A service whose effects can be counted, and a client that calls it: both in processes of their own, to be killed.

    python -m tests.support.rpc_ledger serve FOLDER PORT MODE          effects go to FOLDER/effects
    python -m tests.support.rpc_ledger call FOLDER PORT MODE FIRST LAST WINDOW  what is answered goes to FOLDER/answers

MODE is "deduplicated" or "careless": the same calls, tried again all the same, of a service that remembers nothing.
Every line is one write, so what was written before a kill is there. An effect is a line `NUMBER TOKEN`; the answer of
a call is its token.

Half of the calls have request ids of the client's own, written down before the call; a client that is started again
asks those again that have no answer yet.
"""

import asyncio
import logging
import os
import pathlib
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import hutong
from hutong.rpc import CallFailed, Deduplication, Delivery, Pace, new_request_id, service

TIMEOUT_S: Final = 60.0
RETRIES: Final = 1_000
PACE: Final = Pace(first_pause_ms=50, first_patience_ms=300, pause_ms_max=1_000)
CARELESS: Final = "careless"


@service("ledger")
class Ledger(Protocol):
    async def enter(self, number: int) -> str: ...


class Diary:
    def __init__(self, path: pathlib.Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Book:
    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    async def enter(self, number: int) -> str:
        token = secrets.token_hex(8)
        self._diary.write(number, token)
        if number % 3 == 0:
            await asyncio.sleep(0.005 * (number % 7))  # some work takes its time
        return token


async def serve(folder: pathlib.Path, port: str, mode: str) -> None:
    remember = None if mode == CARELESS else Deduplication(topic="ledger-calls")
    async with hutong.Node(folder / "data", rpc=f"127.0.0.1:{port}") as node:
        await node.rpc.bind(Ledger, Book(Diary(folder / "effects")), deduplicate=remember)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@dataclass
class Told:
    """The content of the answers' file."""

    answered: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)  # the request id, "-" where it is the library's

    @classmethod
    def read(cls, path: pathlib.Path) -> "Told":
        told = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            what, number, more = line.split()
            getattr(told, what)[int(number)] = more
        return told


def to_do(told: Told, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Numbers with their request ids: those that an earlier client had asked under an id of its own, then new ones."""
    ended = told.answered.keys() | told.failed.keys()
    yield from [(number, own) for number, own in told.asked.items() if own != "-" and number not in ended]
    for number in range(first, last):
        if number not in told.asked:
            yield number, new_request_id() if number % 2 else "-"


async def call(folder: pathlib.Path, port: str, mode: str, first: int, last: int, window: int) -> None:
    diary, told = Diary(folder / "answers"), Told.read(folder / "answers")
    delivery = Delivery.AT_LEAST_ONCE if mode == CARELESS else Delivery.DEDUPLICATED
    client = hutong.rpc.connect(f"127.0.0.1:{port}", pace=PACE)
    ledger = client.proxy(Ledger, delivery=delivery, timeout=TIMEOUT_S, retries=RETRIES)
    work = to_do(told, first, last)

    async def lane() -> None:
        for number, own in work:
            diary.write("asked", number, own)
            proxy: Any = ledger if own == "-" else hutong.rpc.with_options(ledger, request_id=own)
            try:
                diary.write("answered", number, await proxy.enter(number))
            except CallFailed as error:
                diary.write("failed", number, type(error).__name__)

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(window):
            lanes.create_task(lane())
    await client.close()


def main(kind: str, folder: str, port: str, mode: str, *numbers: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    place = pathlib.Path(folder)
    if kind == "serve":
        asyncio.run(serve(place, port, mode))
    else:
        asyncio.run(call(place, port, mode, *map(int, numbers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
