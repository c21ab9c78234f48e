"""Three brokers as one, of which any may be killed, stopped and started again: Hutong's nodes, or Apache Kafka's.

Strategy: Apache Kafka is started by a script that prints its addresses and process ids. A broker of it that has ended
is started again by the words of its own command, as the kernel told them while it ran.

Knows nothing of clients.
"""

import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Final, Protocol

from bench.cluster_processes import ClusterProcesses
from bench.processes import STOP_DEADLINE_S, ReadyProcess

NODES: Final = 3
KAFKA_READY_S_MAX: Final = 180.0
_LOOK_S: Final = 0.005
_PORT_TRIES_MAX: Final = 100


class Brokers(Protocol):
    """Brokers 1 to 3. Each call returns when it is done; a started broker accepts clients."""

    bootstrap: str

    def kill(self, number: int) -> None: ...

    def stop(self, number: int) -> None: ...

    def start(self, number: int) -> None: ...


class HutongBrokers:
    """Three nodes of Hutong and their ZooKeeper."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        self._cluster = stack.enter_context(ClusterProcesses(folder, NODES))
        self.bootstrap = self._cluster.bootstrap

    def kill(self, number: int) -> None:
        self._cluster.nodes[number].kill()

    def stop(self, number: int) -> None:
        self._cluster.nodes[number].stop()

    def start(self, number: int) -> None:
        self._cluster.nodes[number].start()


class KafkaBrokers:
    """Three brokers of Apache Kafka, each a controller, too."""

    def __init__(self, script: pathlib.Path, folder: pathlib.Path, stack: ExitStack) -> None:
        folder.mkdir(parents=True)
        port = _free_ports(NODES)
        command = [str(script), "start", "--nodes", str(NODES), "--port", str(port), "--dir", str(folder)]
        process = ReadyProcess(command, log_path=str(folder / "script.log")).start(KAFKA_READY_S_MAX)
        stack.callback(process.__exit__, None, None, None)
        self.bootstrap = process.fields["0"]
        self._folder = folder
        self._pids = dict(enumerate(map(int, process.fields["pid"].split(",")), 1))
        self._commands = {number: _command_of(pid) for number, pid in self._pids.items()}
        self._again: dict[int, subprocess.Popen[bytes]] = {}
        stack.callback(self._end)

    def kill(self, number: int) -> None:
        self._signal(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        self._signal(number, signal.SIGTERM)

    def start(self, number: int) -> None:
        with open(self._folder / f"broker-{number}.log", "ab") as log:
            broker = self._again[number] = subprocess.Popen(self._commands[number], stdout=log, stderr=log)
        self._pids[number] = broker.pid
        host, _, port = self.bootstrap.split(",")[number - 1].rpartition(":")
        _wait(lambda: _accepts(host, int(port)), KAFKA_READY_S_MAX)

    def _signal(self, number: int, signal_number: int) -> None:
        os.kill(self._pids[number], signal_number)
        _wait(lambda: self._has_ended(number), 2 * STOP_DEADLINE_S)

    def _has_ended(self, number: int) -> bool:
        again = self._again.get(number)
        if again is not None:
            return again.poll() is not None
        try:
            state = pathlib.Path(f"/proc/{self._pids[number]}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    def _end(self) -> None:
        for broker in self._again.values():
            broker.kill()
            broker.wait()


def _command_of(pid: int) -> Sequence[str]:
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]


def _accepts(host: str, port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((host, port)) == 0


def _wait(is_done: Callable[[], bool], seconds_max: float) -> None:
    give_up = time.monotonic() + seconds_max
    while not is_done():
        if time.monotonic() > give_up:
            raise TimeoutError(f"nothing after {seconds_max:g} s")
        time.sleep(_LOOK_S)


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(_PORT_TRIES_MAX):
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return int(first)
    raise OSError(f"no {count} free ports in a row")
