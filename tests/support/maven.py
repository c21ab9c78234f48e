"""Java programs for tests: jars from Maven Central and classes of our sources, in the user's cache folder."""

import fcntl
import os
import pathlib
import shutil
import subprocess
from typing import Final

import pytest

FETCH_S_MAX: Final = 300.0
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hutong</groupId><artifactId>tests</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY: Final = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def java_program(name: str, source: pathlib.Path, *artifacts: str) -> list[str]:
    """The words that run the program in `source` with the artifacts (`GROUP:ARTIFACT:VERSION`) on its class path.

    Jars are fetched and the source compiled where that was not done before. Skips the test where it cannot be done.
    """
    missing = [tool for tool in ("java", "javac", "mvn") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat" / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # several test runs may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch(cache, artifacts)
        _compile(cache, source)
    return ["java", "-Xmx256m", "-cp", f"{cache / 'classes'}:{cache / 'jars'}/*", source.stem]


def _fetch(cache: pathlib.Path, artifacts: tuple[str, ...]) -> None:
    pom = _POM.format("".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts))
    kept = cache / "pom.xml"
    if (cache / "jars.done").exists() and kept.exists() and kept.read_text() == pom:
        return
    (cache / "jars.done").unlink(missing_ok=True)
    shutil.rmtree(cache / "jars", ignore_errors=True)
    kept.write_text(pom)
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(kept),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={cache / 'jars'}",
    ]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_S_MAX)
    if fetched.returncode:
        pytest.skip(f"mvn could not fetch {', '.join(artifacts)}: {fetched.stdout[-300:]}")
    (cache / "jars.done").touch()


def _compile(cache: pathlib.Path, source: pathlib.Path) -> None:
    compiled = cache / "classes" / f"{source.stem}.class"
    if compiled.exists() and compiled.stat().st_mtime > max(
        source.stat().st_mtime, (cache / "jars.done").stat().st_mtime
    ):
        return
    command = ["javac", "-proc:none", "-cp", f"{cache / 'jars'}/*", "-d", str(cache / "classes"), str(source)]
    subprocess.run(command, check=True, timeout=FETCH_S_MAX)
