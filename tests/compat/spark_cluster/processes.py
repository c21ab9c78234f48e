"""Spark's own servers, started from the wheel: a standalone master, its workers, and a Spark Connect server.

Strategy: `spark-class` and `spark-submit` of the wheel become the Java process itself; what it has opened is read from
its log. Everything binds to the loopback interface. Knows nothing of tests.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import pytest
from bench.targets import free_port
from tests.support.waiting import until

START_S_MAX: Final = 240.0
WORKERS: Final = 2
ROOT: Final = pathlib.Path(__file__).parents[3]
MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
CONNECT_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
DAEMONS: Final = ("spark.master.ui.port=0", "spark.worker.ui.port=0", "spark.master.rest.enabled=false")
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Server:
    """A Java process of Spark and its log."""

    def __init__(self, words: Sequence[str], log: pathlib.Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, what: str | re.Pattern[str]) -> re.Match[str]:
        """Until the log says so."""

        def look() -> list[re.Match[str]]:
            text = self.text()
            assert self._process.poll() is None, f"it ended:\n{text[-3000:]}"
            return list(re.finditer(what, text))

        (found, *_) = until(look, deadline_s=START_S_MAX, what=f"'{what}' in {self.log}", between_s=0.2)
        return found

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class StandaloneCluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        master = self._serve("master", "spark-class", MASTER_CLASS, "--host", "127.0.0.1", "--port", "0")
        self.url = master.wait_for(_MASTER)[1]
        for number in range(WORKERS):
            place = folder / f"work-{number}"
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1500m", "--work-dir", str(place), self.url]
            self._serve(f"worker-{number}", "spark-class", WORKER_CLASS, *words).wait_for(_REGISTERED)

    def connect_server(self) -> str:
        """Starts a Spark Connect server as an application of this cluster; its URL."""
        port = free_port()
        settings = {
            "spark.master": self.url,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "600m",
            "spark.executor.memory": "600m",
            "spark.cores.max": "1",  # the other worker is for the jobs that are submitted
            "spark.driver.extraJavaOptions": QUICK_JAVA,
            "spark.executor.extraJavaOptions": QUICK_JAVA,
        }
        confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        server = self._serve("connect", "spark-submit", *confs, "--class", CONNECT_CLASS, "spark-internal")
        server.wait_for(r"Spark Connect server started at")
        return f"sc://127.0.0.1:{port}"

    def _serve(self, name: str, *words: str) -> Server:
        log = self.folder / f"{name}.log"
        program, *rest = words
        return self._stack.enter_context(Server([of_wheel(program), *rest], log, environment()))


def of_wheel(program: str) -> str:
    """A program that the wheel brings. Skips the test where it is not installed."""
    found = shutil.which(program, path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{program} of pyspark is not installed")
    return found


def environment(**more: str) -> dict[str, str]:
    """Where executors find Python and the package, as if it were installed on every machine."""
    import pyspark

    return {
        **os.environ,
        "SPARK_HOME": str(pathlib.Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "700m",  # the Connect server takes it for its own, and wants as much
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JAVA} {' '.join(f'-D{setting}' for setting in DAEMONS)}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        **more,
    }
