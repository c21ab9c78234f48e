"""The cluster of `hutong cluster dev`, for tests of clients: one address to connect to, and a node to kill.

Strategy: the command runs as users run it, with a control socket of its own. Clients are told the address of one node
and learn the others from its metadata. Skips where ZooKeeper's jars or a Java are missing. Knows nothing of clients.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Final, Self

from bench.processes import ReadyProcess
from tests.support.zookeeper import make_zookeeper

START_S_MAX: Final = 90.0
COMMAND_S_MAX: Final = 30.0


class DevCluster:
    """`with DevCluster(folder, 3) as cluster`; nodes are numbered from 1."""

    def __init__(self, folder: pathlib.Path, nodes: int, *options: str) -> None:
        """`options` are further ones of the command."""
        make_zookeeper(folder / "unused")  # skips where none can be started
        self._nodes = nodes
        self.down: set[int] = set()
        self._run_folder = tempfile.TemporaryDirectory(prefix="hutong-run-")  # a socket's path must be short
        self._environment = {"XDG_RUNTIME_DIR": self._run_folder.name}
        self._process = ReadyProcess(
            self._words("--nodes", str(nodes), "--port", "0", "--data-dir", str(folder), *options),
            log_path=str(folder / "cluster.log"),
            environment=self._environment,
        )

    @property
    def addresses(self) -> dict[int, str]:
        return dict(enumerate(self._process.fields["kafka"].split(","), start=1))

    @property
    def rocketmq(self) -> str:
        """The list of name servers, if the options ask for some."""
        return self._process.fields["rocketmq"]

    @property
    def address(self) -> str:
        """Of the first node that is up."""
        return next(address for number, address in self.addresses.items() if number not in self.down)

    def kill(self, node: int) -> None:
        """SIGKILL: no goodbye."""
        self._obey("kill", node)
        self.down.add(node)

    def start(self, node: int) -> None:
        self._obey("start", node)
        self.down.discard(node)

    def cut(self, node: int, *, keep_zookeeper: bool = False) -> None:
        """Take it the other nodes, and ZooKeeper unless that is kept, until `heal`."""
        self._obey("cut", node, *(["--keep-zookeeper"] if keep_zookeeper else []))

    def heal(self) -> None:
        """Undo all cuts."""
        self._obey("heal")

    def __enter__(self) -> Self:
        self._process.start(START_S_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__()
        self._run_folder.cleanup()

    def _obey(self, verb: str, *words: int | str) -> None:
        environment = {**os.environ, **self._environment}
        subprocess.run(self._words(verb, *map(str, words)), check=True, env=environment, timeout=COMMAND_S_MAX)

    @staticmethod
    def _words(*words: str) -> list[str]:
        return [sys.executable, "-m", "hutong", "cluster", "dev", *words]
