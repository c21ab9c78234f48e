"""Java programs for tests: jars from Maven Central and classes of our sources, in the user's cache folder."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

import pytest

FETCH_S_MAX: Final = 300.0
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hutong</groupId><artifactId>tests</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<classifier>{}</classifier>{}</dependency>"
)
_ALONE: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def java_program(
    name: str,
    source: pathlib.Path,
    *artifacts: str,
    also: Sequence[pathlib.Path] = (),
    held: pathlib.Path | None = None,
    options: Sequence[str] = (),
    package: str = "",
    generates: bool = False,
) -> list[str]:
    """The words that run the program in `source` with the artifacts (`GROUP:ARTIFACT:VERSION`) on its class path.

    `also` are sources that it is compiled with, `held` is a folder that has the jars already, `options` are for the
    Java machine. `generates` lets what the jars bring generate sources. An artifact may have a `:CLASSIFIER`. Jars are
    fetched and sources compiled where that was not done before. Skips the test where that cannot be done.
    """
    need_java("java", "javac", *(() if held else ("mvn",)))
    cache = _cache() / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # several test runs may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not held:
            _fetch(cache, artifacts, "")
        jars = f"{held or cache / 'jars'}/*"
        classes = _compile(cache, [source, *also], jars, artifacts, [] if generates else ["-proc:none"])
    main = f"{package}.{source.stem}" if package else source.stem
    return ["java", "-Xmx256m", *options, "-cp", f"{classes}:{jars}", main]


def need_java(*tools: str) -> None:
    """Skips the test where one of the tools is absent."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")


def _cache() -> pathlib.Path:
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat"


def jars_alone(name: str, *artifacts: str) -> list[pathlib.Path]:
    """The jars of the artifacts, without those that they need. Skips the test where they cannot be had."""
    return _jars(name, artifacts, _ALONE)


def jars_with_needs(name: str, *artifacts: str) -> list[pathlib.Path]:
    """The jars of the artifacts and of those that they need. Skips the test where they cannot be had."""
    return _jars(name, artifacts, "")


def _jars(name: str, artifacts: tuple[str, ...], exclusions: str) -> list[pathlib.Path]:
    need_java("mvn")
    cache = _cache() / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch(cache, artifacts, exclusions)
    return sorted((cache / "jars").glob("*.jar"))


def _fetch(cache: pathlib.Path, artifacts: tuple[str, ...], exclusions: str) -> None:
    pom = _POM.format("".join(_dependency(artifact, exclusions) for artifact in artifacts))
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


def _dependency(artifact: str, exclusions: str) -> str:
    group, name, version, *classifier = artifact.split(":")
    return _DEPENDENCY.format(group, name, version, "".join(classifier), exclusions)


def _compile(
    cache: pathlib.Path, sources: Sequence[pathlib.Path], jars: str, artifacts: Sequence[str], options: Sequence[str]
) -> pathlib.Path:
    """A folder of classes that is named by what they were made of."""
    content = b"".join(source.read_bytes() for source in sources) + repr((jars, artifacts)).encode()
    classes = cache / f"classes-{hashlib.sha256(content).hexdigest()[:12]}"
    if not classes.exists():
        made = cache / "classes.new"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        command = ["javac", "-nowarn", *options, "-cp", jars, "-d", str(made), *map(str, sources)]
        subprocess.run(command, check=True, timeout=FETCH_S_MAX)
        made.rename(classes)
    return classes
