"""Apache Kafka as a process, for tests of what is ours in front of it.

HUTONG_TEST_KAFKA_PEER names the script that starts it (`SCRIPT start --port N`, prints `ready HOST:PORT`). The first
start on a machine fetches Kafka.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.processes import ReadyProcess
from bench.targets import DEFAULT_KAFKA_SCRIPT, free_port

SCRIPT = os.environ.get("HUTONG_TEST_KAFKA_PEER") or str(DEFAULT_KAFKA_SCRIPT)
FETCH_S_MAX = 240.0


@contextmanager
def running_kafka(log: Path) -> Iterator[str]:
    """Its HOST:PORT. Skips the test, with the reason, where it cannot be started."""
    if not os.access(SCRIPT, os.X_OK):
        pytest.skip("no Kafka peer: name its script in HUTONG_TEST_KAFKA_PEER")
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java and mvn are not installed")
    process = ReadyProcess([SCRIPT, "start", "--port", str(free_port())], log_path=str(log))
    with process.start(FETCH_S_MAX):
        yield process.fields["0"]
