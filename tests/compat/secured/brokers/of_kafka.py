"""Apache Kafka with a listener for each door. Its script takes settings beside those it makes itself."""

import pathlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.certificates import Certificates
from bench.processes import ReadyProcess
from bench.targets import free_port
from tests.compat.secured.rules import (
    DELAY_MS,
    DOORS,
    MECHANISMS,
    READY_S,
    SCRAM_256,
    SCRAM_512,
    SESSION_MS,
    USERS,
    WITHOUT_TLS,
)
from tests.support.node import KAFKA_SCRIPT


def open_doors(folder: pathlib.Path, certificates: Certificates, stack: ExitStack) -> Mapping[str, str]:
    """Addresses by door, of a broker that runs until `stack` closes."""
    assert KAFKA_SCRIPT
    kafka = _Kafka(certificates)
    process = ReadyProcess(kafka.command(KAFKA_SCRIPT, folder), log_path=str(folder / "kafka.log"))
    stack.enter_context(process.start(READY_S))
    return {door: f"localhost:{kafka.ports[door]}" for door in DOORS}


@dataclass(slots=True)
class _Kafka:
    """Apache Kafka's words for the doors."""

    certificates: Certificates
    ports: dict[str, int] = field(default_factory=lambda: {door: free_port() for door in (*DOORS, "controller")})

    def settings(self) -> dict[str, str]:
        protocols = {"plain": "PLAINTEXT", "controller": "PLAINTEXT", **dict.fromkeys(WITHOUT_TLS, "SASL_PLAINTEXT")}
        protocols |= dict.fromkeys(("sasl", "short"), "SASL_SSL") | dict.fromkeys(("tls", "strict", "stale"), "SSL")
        listeners = {door: f"{door.upper()}://127.0.0.1:{port}" for door, port in self.ports.items()}
        files = self.certificates
        told = {
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(listeners[door] for door in DOORS),
            "listener.security.protocol.map": ",".join(f"{door.upper()}:{kind}" for door, kind in protocols.items()),
            "inter.broker.listener.name": "PLAIN",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['controller']}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.server.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.authority),
            "listener.name.tls.ssl.client.auth": "requested",
            "listener.name.strict.ssl.client.auth": "required",
            "listener.name.stale.ssl.keystore.type": "PEM",
            "listener.name.stale.ssl.keystore.location": str(files.stale_server.both),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.narrow.sasl.enabled.mechanisms": SCRAM_512,
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        return told | {"controller.listener.names": "CONTROLLER"} | self._modules()

    def _modules(self) -> dict[str, str]:
        package = "org.apache.kafka.common.security"
        users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        told = {}
        for door in ("sasl", "short", *WITHOUT_TLS):
            of_door = f"listener.name.{door}"
            mechanisms = (SCRAM_512,) if door == "narrow" else (SCRAM_256, SCRAM_512)
            if door != "narrow":
                told[f"{of_door}.plain.sasl.jaas.config"] = f"{package}.plain.PlainLoginModule required {users};"
            for mechanism in mechanisms:
                key = f"{of_door}.{mechanism.lower()}.sasl.jaas.config"
                told[key] = f"{package}.scram.ScramLoginModule required;"
        return told

    def command(self, script: str, folder: pathlib.Path) -> list[str]:
        words = [script, "start", "--port", str(self.ports["plain"]), "--dir", str(folder / "data")]
        return words + [word for name, value in self.settings().items() for word in ("--set", f"{name}={value}")]
