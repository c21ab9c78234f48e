"""The compiled passes are built where they can be, and left out without an error where they cannot."""

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from hutong.broker.rocketmq.records import stored_runs
from hutong.broker.rocketmq.sends import compiled_sends
from hutong.foundation.compiled import compiled_module
from hutong.wire.kafka.batch import record_walk
from hutong.wire.vertx import usual_frames

ROOT = Path(__file__).parents[3]
HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"
COMPILER = shutil.which(os.environ.get("CC") or "cc")


def _build(target: Path, compiler: str) -> list[Path]:
    pytest.importorskip("setuptools")
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", target, "--build-temp", target / "temp"],
        cwd=ROOT,
        env=os.environ | {"CC": compiler},
        check=True,
        capture_output=True,
        timeout=100,
    )
    return list(target.rglob("_*.so"))


def test_an_installation_without_a_compiler_succeeds(tmp_path: Path) -> None:
    assert _build(tmp_path, str(tmp_path / "no-compiler")) == []


@pytest.mark.skipif(not COMPILER or not HEADER.exists(), reason="no C compiler, or no Python.h")
def test_an_installation_with_a_compiler_builds_for_every_later_python(tmp_path: Path) -> None:
    assert COMPILER is not None
    built = sorted(built.name for built in _build(tmp_path, COMPILER))
    assert built == ["_plain_send.abi3.so", "_record_walk.abi3.so", "_stored_run.abi3.so", "_usual_frames.abi3.so"]


def test_without_a_build_of_this_contract_python_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "hutong.wire.kafka.batch._record_walk"
    monkeypatch.setitem(sys.modules, name, None)
    assert compiled_module(name, 2) is None
    older = SimpleNamespace(CONTRACT=1)
    monkeypatch.setattr(importlib, "import_module", lambda asked: older)
    assert compiled_module(name, 2) is None
    current: object = SimpleNamespace(CONTRACT=2)
    monkeypatch.setattr(importlib, "import_module", lambda asked: current)
    assert compiled_module(name, 2) is current


@pytest.mark.parametrize(
    ("name", "contract"),
    [
        ("hutong.wire.kafka.batch._record_walk", record_walk.CONTRACT),
        ("hutong.broker.rocketmq.records._stored_run", stored_runs.CONTRACT),
        ("hutong.broker.rocketmq.sends._plain_send", compiled_sends.CONTRACT),
        ("hutong.wire.vertx._usual_frames", usual_frames.CONTRACT),
    ],
)
def test_a_build_that_is_here_is_of_this_contract(name: str, contract: int) -> None:
    build = pytest.importorskip(name, exc_type=ImportError)
    assert contract == build.CONTRACT, "`make sync` builds it again"
