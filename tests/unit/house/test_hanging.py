"""A test that hangs, or that takes its process with it, ends neither the run nor the other tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HANGS = """
import asyncio
import uvloop

def test_hangs():
    uvloop.run(asyncio.sleep(1_000))

def test_next():
    pass
"""
DIES = """
import os

def test_first():
    pass

def test_dies():
    os._exit(3)

def test_next():
    pass
"""
INTERRUPTS = """
import os
import signal
import time

def test_first():
    pass

def test_interrupts():
    for _ in range(2):  # `timeout` and `uv run` both pass the signal on
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(1_000)

def test_next():
    pass
"""
OTHER = "def test_other():\n    pass\n"

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def run_tests(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    words = ["-p", "tests.support.hanging", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(folder), *words, *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_loop_of_uvloop_that_hangs_is_ended_in_each_run(tmp_path: Path) -> None:
    ran = run_tests(tmp_path, {"test_hangs.py": HANGS}, "-n0", "-o", "timeout=1", "--reruns=1")
    assert "1 failed, 1 passed, 1 rerun" in ran.stdout
    assert "RuntimeError: Event loop stopped" in ran.stdout


def test_a_run_ends_after_a_worker_has_died(tmp_path: Path) -> None:
    files = {"test_a.py": OTHER, "test_b.py": DIES, "test_c.py": OTHER, "test_d.py": OTHER}
    ran = run_tests(tmp_path, files, "-n2", "--dist=loadfile", "--reruns=1")
    assert "test_b.py::test_dies" in ran.stdout
    assert "5 passed" in ran.stdout


def test_an_interrupted_run_names_the_tests_that_had_not_ended(tmp_path: Path) -> None:
    ran = run_tests(tmp_path, {"test_a.py": OTHER, "test_b.py": INTERRUPTS}, "-n2", "--dist=loadfile", "--reruns=1")
    assert "had not ended: test_b.py::test_interrupts, with 1 to follow" in ran.stdout
    assert " passed in " in ran.stdout.splitlines()[-1]  # the closing line
