"""The script of the whole check: what its last line and its exit code say of both parts."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKE = """#!/bin/sh
# Prints the next of the answers to this target, and ends with its code.
number=$(($(cat "$ANSWERS/$1.count" 2>/dev/null || echo 0) + 1))
echo "$number" >"$ANSWERS/$1.count"
echo "$1 $*" >>"$ANSWERS/calls"
cat "$ANSWERS/$1.$number"
exit "$(cat "$ANSWERS/$1.$number.code")"
"""
QUICK = "===== 11000 passed, 5 skipped, 1500 deselected in 200.50s (0:03:20) ====="
LONG = "===== 1190 passed, 8 skipped, 12000 deselected, 2 rerun in 400.75s (0:06:40) ====="


class Check:
    """The script in a folder of its own, with a `make` that answers as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
        (folder / "bin").mkdir()
        self._program("make", MAKE)
        self._program("apt-get", "#!/bin/sh\n")
        self.answer("lint", 0, "")
        self.answer("check-pages", 0, "")
        for _ in ("one node", "three"):
            self.answer("simulate", 0, "")

    def answer(self, target: str, code: int, *lines: str) -> None:
        """Set the output and exit code of the next `make TARGET` that has none yet."""
        number = 1 + len(list(self.folder.glob(f"{target}.*.code")))
        (self.folder / f"{target}.{number}").write_text("".join(line + "\n" for line in lines))
        (self.folder / f"{target}.{number}.code").write_text(str(code))

    def run(self) -> tuple[int, str]:
        """The exit code and the last line."""
        environment = {
            **os.environ,
            "ANSWERS": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", str(self.folder / ".ci/run")], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.splitlines()[-1]

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "calls").read_text().splitlines()]

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    return Check(tmp_path)


def test_all_is_well(check: Check) -> None:
    check.answer("test", 0, QUICK)
    check.answer("test-long", 0, LONG)
    assert check.run() == (0, "===== 12190 passed, 13 skipped, 2 rerun in 601.25s =====")
    assert check.calls == ["lint", "check-pages", "simulate", "simulate", "test", "test-long"]


def test_what_passes_in_a_process_of_its_own_counts_as_rerun(check: Check) -> None:
    check.answer("test", 2, "===== 2 failed, 10998 passed, 5 skipped in 200.50s (0:03:20) =====")
    check.answer("test", 0, "===== 2 passed in 1.00s =====")
    check.answer("test-long", 0, LONG)
    assert check.run() == (0, "===== 12190 passed, 13 skipped, 4 rerun in 602.25s =====")
    assert check.calls == ["lint", "check-pages", "simulate", "simulate", "test", "test", "test-long"]


def test_what_fails_again_fails_the_check_though_the_rest_passes(check: Check) -> None:
    check.answer("test", 2, "===== 2 failed, 10998 passed in 200.00s (0:03:20) =====")
    check.answer("test", 2, "===== 1 failed, 1 passed in 1.00s =====")
    check.answer("test-long", 0, "===== 1190 passed in 400.00s (0:06:40) =====")
    assert check.run() == (2, "===== 1 failed, 12189 passed, 2 rerun in 601.00s =====")


def test_many_failures_are_not_tried_again(check: Check) -> None:
    check.answer("test", 0, QUICK)
    check.answer("test-long", 2, "===== 7 failed, 1183 passed in 400.00s (0:06:40) =====")
    assert check.run() == (2, "===== 7 failed, 12183 passed, 5 skipped in 600.50s =====")


@pytest.mark.parametrize("code", [0, 124])
def test_a_run_without_a_closing_line_is_a_failure(check: Check, code: int) -> None:
    check.answer("test", code, "the interpreter ended")
    check.answer("test-long", 0, LONG)
    exit_code, last = check.run()
    assert exit_code == (code or 70)
    assert last.startswith("===== 1190 passed")


def test_lint_counts_and_the_tests_run_all_the_same(check: Check) -> None:
    (check.folder / "lint.1.code").write_text("2")
    check.answer("test", 0, QUICK)
    check.answer("test-long", 0, LONG)
    assert check.run()[0] == 2
    assert check.calls == ["lint", "check-pages", "simulate", "simulate", "test", "test-long"]


def test_the_pages_count_and_the_tests_run_all_the_same(check: Check) -> None:
    (check.folder / "check-pages.1.code").write_text("2")
    check.answer("test", 0, QUICK)
    check.answer("test-long", 0, LONG)
    assert check.run()[0] == 2
    assert check.calls == ["lint", "check-pages", "simulate", "simulate", "test", "test-long"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_broken_promise_counts_and_the_tests_run_all_the_same(check: Check, number: int) -> None:
    (check.folder / f"simulate.{number}.code").write_text("70")
    check.answer("test", 0, QUICK)
    check.answer("test-long", 0, LONG)
    assert check.run()[0] == 70
    assert check.calls == ["lint", "check-pages", "simulate", "simulate", "test", "test-long"]


def test_simulated_seeds_are_named_so_that_they_can_be_repeated(check: Check) -> None:
    check.answer("test", 0, QUICK)
    check.answer("test-long", 0, LONG)
    check.run()
    calls = [line for line in (check.folder / "calls").read_text().splitlines() if line.startswith("simulate")]
    assert [call.split()[2] for call in calls] == ["NODES=1", "NODES=3"]
    assert all("FIRST=" in call for call in calls)
