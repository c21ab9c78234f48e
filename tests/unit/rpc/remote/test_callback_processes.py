"""Callbacks between two processes: the example in the docs, and what happens when one of them is killed."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hutong.rpc import ConnectionLost, connect

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "progress.py"


@pytest.fixture
def service() -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, str(EXAMPLE), "serve", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def address_of(service: subprocess.Popen[str]) -> str:
    assert service.stdout is not None
    return service.stdout.readline().strip()


def test_the_example(service: subprocess.Popen[str]) -> None:
    words = [sys.executable, str(EXAMPLE), "import", address_of(service)]
    run = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout.splitlines() == ["25 of 100", "50 of 100", "75 of 100", "imported 75 rows"]


async def test_a_service_that_is_killed_during_a_callback(service: subprocess.Popen[str]) -> None:
    spec = importlib.util.spec_from_file_location("progress", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    reported = asyncio.Event()

    class Held:
        async def report(self, done: int, of: int) -> bool:
            reported.set()
            await asyncio.Event().wait()
            return True

    async with connect(address_of(service)) as client:
        call = asyncio.ensure_future(client.proxy(example.Imports).run(100, Held()))
        await reported.wait()
        service.kill()
        with pytest.raises(ConnectionLost):
            await call
