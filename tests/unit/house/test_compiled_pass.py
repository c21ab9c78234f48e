"""The compiled pass over records is built where it can be, and left out without an error where it cannot."""

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from hutong.wire.kafka.batch import record_contents, record_walk

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
    return list(target.rglob("_record_walk*.so"))


def test_an_installation_without_a_compiler_succeeds(tmp_path: Path) -> None:
    assert _build(tmp_path, str(tmp_path / "no-compiler")) == []


@pytest.mark.skipif(not COMPILER or not HEADER.exists(), reason="no C compiler, or no Python.h")
def test_an_installation_with_a_compiler_builds_for_every_later_python(tmp_path: Path) -> None:
    assert COMPILER is not None
    [built] = _build(tmp_path, COMPILER)
    assert built.name == "_record_walk.abi3.so"


def test_without_a_build_of_this_contract_python_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "hutong.wire.kafka.batch._record_walk"
    monkeypatch.setitem(sys.modules, name, None)
    assert record_contents._compiled_walk() is None
    older = SimpleNamespace(CONTRACT=record_walk.CONTRACT - 1)
    monkeypatch.setattr(importlib, "import_module", lambda asked: older)
    assert record_contents._compiled_walk() is None
    current: object = SimpleNamespace(CONTRACT=record_walk.CONTRACT)
    monkeypatch.setattr(importlib, "import_module", lambda asked: current)
    assert record_contents._compiled_walk() is current
