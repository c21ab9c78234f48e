"""The brokers to measure: ours, Apache Kafka by a start script, any other by its address, and the bare server.

Strategy: a target is an address, a process id where we know one, and what has to be said when a topic is made. Every
server that is started here is stopped here.
"""

import contextlib
import pathlib
import random
import socket
import ssl
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bench.processes import ReadyProcess
from bench.raw_client import create_topic

DEFAULT_KAFKA_SCRIPT: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers" / "kafka" / "kafka"
QOS_RECEIVE: Final = "receive"
_PORT_TRIES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class TlsDoor:
    """`HOST:PORT` behind TLS, and the certificate of the authority by which it is believed."""

    address: str
    authority: pathlib.Path


@dataclass(slots=True)
class Target:
    """A broker under measurement."""

    name: str
    bootstrap: str
    pid: int | None = None
    is_hutong: bool = False
    is_ceiling: bool = False  # not a broker: shows what the client alone can do
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    data_dir: pathlib.Path | None = None  # where it keeps its records, if we know
    tls: TlsDoor | None = None  # where clients under measurement come in, if not by `bootstrap`
    process: ReadyProcess | None = field(default=None, repr=False)

    def create_topic(self, topic: str) -> None:
        """A fresh topic of one partition, which holds one record from the start: proof that it takes records."""
        create_topic(self.bootstrap, topic, configs=self.topic_configs)

    def with_qos(self, qos: str) -> "Target":
        """The same broker with topics of another quality of service; Hutong only."""
        return replace(self, name=f"{self.name} {qos}", topic_configs={"hutong.qos": qos})

    def plain(self) -> "Target":
        """The broker by its plain door alone."""
        return replace(self, tls=None)

    def behind_tls(self) -> "Target":
        """The same broker, measured by its door with TLS; topics are still made by the plain one."""
        return replace(self, name=f"{self.name} TLS")

    @property
    def address(self) -> str:
        """The address for clients under measurement."""
        return self.tls.address if self.tls else self.bootstrap

    def tls_context(self) -> ssl.SSLContext | None:
        """For Python's own sockets; None where there is no TLS."""
        return ssl.create_default_context(cafile=str(self.tls.authority)) if self.tls else None

    @property
    def librdkafka(self) -> dict[str, str]:
        """librdkafka's settings for it."""
        if self.tls is None:
            return {"bootstrap.servers": self.bootstrap}
        return {
            "bootstrap.servers": self.tls.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.tls.authority),
        }

    def stop(self) -> None:
        if self.process:
            self.process.__exit__(None, None, None)


def free_port() -> int:
    """A free port that the system gives to no outgoing connection before its server has it.

    With one of the system's own range, 1 of some 20,000 tests found it in use. A client that dials it while its server
    is away may even reach itself, and keep the port from the server.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range") as range_of_others:
        first = int(range_of_others.read().split()[0])
    for port in random.Random().sample(range(first // 2, first), _PORT_TRIES_MAX):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def hutong_command(data_dir: pathlib.Path, address: str | None = "127.0.0.1:0") -> list[str]:
    """Without an address the settings that follow say where it listens."""
    hutong = pathlib.Path(sys.executable).with_name("hutong")
    return [str(hutong), "serve", *(["--kafka", address] if address else []), "--data-dir", str(data_dir)]


def kafka_command(script: pathlib.Path, data_dir: pathlib.Path, *, fsync: bool = False, port: int = 0) -> list[str]:
    command = [str(script), "start", "--port", str(port or free_port()), "--dir", str(data_dir)]
    return [*command, "--fsync"] if fsync else command


def start_hutong(
    folder: pathlib.Path,
    name: str = "hutong",
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Target:
    """`settings` are `SECTION.NAME=VALUE`, and say where it listens if there are any."""
    command = hutong_command(folder / name, None if settings else "127.0.0.1:0")
    for setting in settings:
        command += ["--set", setting]
    process = _started(command, folder / f"{name}.log", environment)
    pid = int(process.fields["pid"])
    return Target(name, process.fields["kafka"], pid, is_hutong=True, data_dir=folder / name, process=process)


def start_kafka(
    script: pathlib.Path, folder: pathlib.Path, *, fsync: bool = False, port: int = 0, settings: Sequence[str] = ()
) -> Target:
    name = "kafka-fsync" if fsync else "kafka"
    command = kafka_command(script, folder / name, fsync=fsync, port=port)
    for setting in settings:
        command += ["--set", setting]
    process = _started(command, folder / f"{name}.log")
    return Target(name, process.fields["0"], int(process.fields["pid"]), data_dir=folder / name, process=process)


def start_ceiling(folder: pathlib.Path, partitions: int = 1) -> Target:
    """The bare server of `bench.null_broker`: answers at once, checks nothing, keeps nothing."""
    process = _started([sys.executable, "-m", "bench.null_broker", str(partitions)], folder / "ceiling.log")
    return Target("ceiling", process.fields["kafka"], int(process.fields["pid"]), is_ceiling=True, process=process)


def peer(text: str) -> Target:
    """A target that runs already, from `name=HOST:PORT`."""
    name, _, address = text.rpartition("=")
    return Target(name or "peer", address, is_hutong=name.startswith("hutong"))


def scratch_folder(parent: str | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hutong-bench-", dir=parent)


def _started(command: list[str], log: pathlib.Path, environment: Mapping[str, str] | None = None) -> ReadyProcess:
    return ReadyProcess(command, log_path=str(log), environment=environment).start()
