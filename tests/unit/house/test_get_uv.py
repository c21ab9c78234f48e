"""How a bare machine gets its uv, and what it is told when it cannot."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "get-uv"
TOOLS = ("dirname", "mkdir", "ln", "sh")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is the whole PATH of the script; programs are added as small scripts."""
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    return tmp_path


def add(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!{machine}/sh\n{script}\n")
    (machine / name).chmod(0o755)


def get(machine: Path) -> tuple[int, str]:
    done = subprocess.run(
        [machine / "sh", SCRIPT, machine / ".tools" / "uv"],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_uv_on_the_path_is_used(machine: Path) -> None:
    add(machine, "uv", "exit 0")
    assert get(machine) == (0, "")
    assert os.readlink(machine / ".tools" / "uv") == str(machine / "uv")


def test_a_uv_that_does_not_run_is_not_used(machine: Path) -> None:
    add(machine, "uv", "exit 1")
    code, message = get(machine)
    assert code == 69
    assert "no Python 3.11 or later" in message


def test_pip_puts_it_beside_the_target(machine: Path) -> None:
    add(machine, "python3", f'echo "$*" >> {machine}/calls; exit 0')
    assert get(machine) == (0, "")
    assert os.readlink(machine / ".tools" / "uv") == str(machine / ".tools/pip/bin/uv")
    install = (machine / "calls").read_text().splitlines()[-1]
    assert install.endswith(f"--target {machine}/.tools/pip uv")


def test_without_pip_a_venv_does(machine: Path) -> None:
    add(machine, "inside", "exit 0")
    build = f"mkdir -p {machine}/.tools/venv/bin; ln -s {machine}/inside {machine}/.tools/venv/bin/python"
    add(machine, "python3", f'case "$2" in pip) exit 1;; venv) {build};; esac')
    assert get(machine) == (0, "")
    assert os.readlink(machine / ".tools" / "uv") == str(machine / ".tools/venv/bin/uv")


def test_with_neither_one_sentence_says_what_to_install(machine: Path) -> None:
    add(machine, "python3", 'case "$2" in pip|venv) exit 1;; esac')
    code, message = get(machine)
    assert code == 69
    assert message.count("\n") == 1
    assert "apt-get install python3-venv" in message


def test_an_old_python_is_not_enough(machine: Path) -> None:
    add(machine, "python3", "exit 1")
    add(machine, "python3.12", f'echo "$*" >> {machine}/calls')
    assert get(machine) == (0, "")
    assert "-m pip install" in (machine / "calls").read_text()
