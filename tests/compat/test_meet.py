"""Either side of the duplex exercise beside either side of the Go program, in each of that program's ways.

The Go program ends 50 ms after its Zhang has heard all, and when its Li has, whether or not all was said. It has to
write what it still owes in that time, so the way that takes a system call for each line gets few meetings. On a machine
so busy that this is too early it is given another chance.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = Path(os.environ.get("HUTONG_MEET_PEER", ROOT.parent / "shared" / "peers" / "meet"))
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
WAYS = ("exercise", "line", "coalesced")
MEETINGS = {"exercise": "20000", "line": "500", "coalesced": "20000"}
DEADLINE_S = 60
ATTEMPTS_MAX = 4
THEIR_FIGURES = re.compile(r"way=\w+ meetings=\d+ seconds=\d+\.\d{3} per_second=\d+")
OUR_FIGURES = re.compile(r"meetings (\d+) lines \d+ seconds \d+\.\d{3}")
OURS = [sys.executable, str(ROOT / "examples" / "duplex" / "meet.py"), "--meetings"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if GO is None:
        pytest.skip("no Go toolchain")
    if not (SOURCES / "main.go").exists():
        pytest.skip(f"no Go program of the exercise in {SOURCES}")
    folder = tmp_path_factory.mktemp("meet")
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    command = [GO, "build", "-o", "meet", "."]
    built = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, timeout=300)
    if built.returncode:
        pytest.skip(f"the Go program cannot be built here: {built.stderr.decode()[:200]}")
    return folder / "meet"


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have ended when the test has."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def theirs(program: Path, way: str, *words: str) -> list[str]:
    return [str(program), "-n", MEETINGS[way], "-way", way, *words]


@pytest.mark.parametrize("way", WAYS)
def test_li_of_ours_meets_zhang_of_theirs(program: Path, way: str, running: list[subprocess.Popen[str]]) -> None:
    def meet() -> tuple[int, str]:
        # The program does not say that it listens: whoever is refused comes again, and the deadline is the test's.
        address = f"127.0.0.1:{free_port()}"
        zhang = subprocess.Popen(theirs(program, way, "listen", address), stdout=subprocess.PIPE, text=True)
        running.append(zhang)
        while True:
            li = subprocess.run(
                [*OURS, MEETINGS[way], "dial", address], check=False, capture_output=True, text=True, timeout=DEADLINE_S
            )
            if "Connection refused" not in li.stderr:
                break
            assert zhang.poll() is None
        assert THEIR_FIGURES.match(zhang.communicate(timeout=DEADLINE_S)[0])
        return li.returncode, li.stdout + li.stderr

    must_succeed(meet, MEETINGS[way])


@pytest.mark.parametrize("way", WAYS)
def test_zhang_of_ours_meets_li_of_theirs(program: Path, way: str, running: list[subprocess.Popen[str]]) -> None:
    def meet() -> tuple[int, str]:
        zhang = subprocess.Popen(
            [*OURS, MEETINGS[way], "listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(zhang)
        assert zhang.stderr is not None
        address = zhang.stderr.readline().split()[-1]
        li = subprocess.run(theirs(program, way, "dial", address), check=False, timeout=DEADLINE_S)
        assert li.returncode == 0
        printed, complaint = zhang.communicate(timeout=DEADLINE_S)
        return zhang.returncode, printed + complaint

    must_succeed(meet, MEETINGS[way])


def must_succeed(meet: Callable[[], tuple[int, str]], meetings: str) -> None:
    """Exit code 0 and the figures; that their side left too early is theirs, and does not happen again and again."""
    for _ in range(ATTEMPTS_MAX):
        code, printed = meet()
        if code == 0 or "the peer left before" not in printed:
            break
    assert code == 0, printed
    figures = OUR_FIGURES.match(printed)
    assert figures is not None
    assert figures[1] == meetings


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
