"""kafka-python's own integration tests against a node: `python -m tests.compat.kafka_python_suite`.

Strategy: the source distribution is fetched with pip into the user's cache folder at run time and its
`test/integration` runs there, in a process of its own, against the given address or a node started for it. SASL and
SSL have no listener here and are left out. Prints the failures; the exit status is 1 when there is any.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tests.support.node import Node

VERSION: Final = "3.0.12"
KAFKA_VERSION: Final = "4.3.0"  # as which broker the suite shall treat us
DEADLINE_S: Final = 900.0
LEFT_OUT: Final = ("test_sasl_integration.py", "test_ssl_integration.py")
# As the suite's own brokers are set.
NODE_SETTINGS: Final = (
    "node.id=0",
    "group.min_session_timeout_ms=1000",
    "topic.default_partitions=4",
    "security.authorize=true",
    "security.super_users=User:ANONYMOUS",
)
SERVICE_STAND_IN: Final = '''"""Stands in for a module that is not distributed: brokers are never started here."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        """It is open."""

    def close(self):
        """It is not ours to close."""


class SpawnedService:
    """Only imported."""
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report of the suite."""

    passed: int
    skipped: int
    failures: dict[str, str]  # test -> first line of the reason


def fetched_suite() -> pathlib.Path:
    """The unpacked source distribution. Raises `subprocess.CalledProcessError` when pip cannot fetch it."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-compat"
    folder = cache / f"kafka_python-{VERSION}"
    if not (folder / "test" / "integration").exists():
        cache.mkdir(parents=True, exist_ok=True)
        wanted = ["--no-deps", "--no-binary", "kafka-python", f"kafka-python=={VERSION}"]
        subprocess.run([*pip(), "download", "-q", "-d", str(cache), *wanted], check=True, timeout=DEADLINE_S)
        with tarfile.open(cache / f"kafka_python-{VERSION}.tar.gz") as archive:
            # Python knows `filter` from 3.11.4 on, and Debian 12 has 3.11.2. The archive is PyPI's own.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(cache)
        complete(folder / "test")
    return folder


def complete(tests: pathlib.Path) -> None:
    """Adds what the distribution leaves out of its tests: the package file and the module that starts Java brokers."""
    (tests / "__init__.py").touch()
    (tests / "service.py").write_text(SERVICE_STAND_IN)


def pip() -> list[str]:
    """Any pip: of this environment, on the path, or run by uv."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "pip"]
    return ["pip"] if shutil.which("pip") else ["uv", "tool", "run", "pip"]


def run_suite(address: str, *more: str) -> Outcome:
    """Runs the suite against `address`; `more` are further words for pytest."""
    folder = fetched_suite()
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        environment = {
            **os.environ,
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_URI": f"kafka://{address}",
            "KAFKA_ROOT": scratch,
        }
        ignored = [f"--ignore=test/integration/{file}" for file in LEFT_OUT]
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "--timeout-method=signal",
            f"--junitxml={report}",
            *ignored,
            *more,
        ]
        command = [sys.executable, "-m", "pytest", "test/integration", *options]
        subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False, timeout=DEADLINE_S)
        return outcome_of(report)


def outcome_of(report: pathlib.Path) -> Outcome:
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failures = {}
    skipped = 0
    for case in cases:
        skipped += case.find("skipped") is not None
        for kind in ("failure", "error"):
            found = case.find(kind)
            if found is not None:
                failures[f"{case.get('classname')}::{case.get('name')}"] = (found.get("message") or "").split("\n")[0]
    return Outcome(len(cases) - skipped - len(failures), skipped, failures)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs already; default: start a node")
    parser.add_argument("more", nargs="*", help="further words for pytest, after --")
    options = parser.parse_args(words)
    with ExitStack() as stack:
        address = options.bootstrap
        if not address:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            address = stack.enter_context(Node(folder, *NODE_SETTINGS)).address
        outcome = run_suite(address, *options.more)
    print(f"{outcome.passed} passed, {outcome.skipped} skipped, {len(outcome.failures)} failed")
    for test, reason in outcome.failures.items():
        print(f"{test}: {reason}")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
