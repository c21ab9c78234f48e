"""A node of a real cluster of Vert.x 3, driven by a test: `java_vertx3/DrivenNode.java` has its commands."""

import json
from pathlib import Path
from typing import Final

from tests.support.driven_process import DrivenProcess
from tests.support.maven import java_program
from tests.support.pem_files import PemFiles

SESSION_MS: Final = 4_000
CORE: Final = "3.9.16"
ZOOKEEPER: Final = "3.9.13"
"""The last one at Maven Central that Vert.x's 3.9 has of it; vertx-core of a later patch level goes with it."""
CLIENT: Final = "3.5.10"
"""ZooKeeper's client; the one that it asks for cannot connect from JDK 14 on (ZOOKEEPER-3779)."""
_FOLDER: Final = Path(__file__).parents[1] / "compat" / "java_vertx3"
_COMMON: Final = Path(__file__).parents[1] / "compat" / "java_vertx"
_MAIN: Final = _FOLDER / "DrivenNode.java"
_OPTIONS: Final = (
    "-Dvertx.disableFileCPResolving=true",
    "-Dvertx.disableFileCaching=true",
    "-Djava.util.logging.config.file=/dev/null",  # Vert.x's log, which nobody reads
)


def vertx3_program() -> list[str]:
    """The words that run a node; it takes its settings behind them. Skips where Java or Maven are missing."""
    return java_program(
        f"vertx-{CORE}",
        _MAIN,
        f"io.vertx:vertx-core:{CORE}",
        f"io.vertx:vertx-zookeeper:{ZOOKEEPER}",
        f"io.vertx:vertx-service-proxy:{CORE}",
        f"org.apache.zookeeper:zookeeper:{CLIENT}",
        "org.slf4j:slf4j-nop:1.7.36",
        also=[_FOLDER / "Typed.java", _COMMON / "Answers.java", _COMMON / "Shouting.java"],
        options=_OPTIONS,
        package="driven",
    )


class Vertx3Node(DrivenProcess):
    """One node of Vert.x 3."""

    def __init__(self, zookeeper: str, *, session_ms: int = SESSION_MS, tls: PemFiles | None = None) -> None:
        told: dict[str, str | int] = {"zookeeper": zookeeper, "session": session_ms, "host": "127.0.0.1"}
        if tls is not None:
            told |= {"key": str(tls.key), "certificate": str(tls.certificate), "trust": str(tls.ca)}
        super().__init__([*vertx3_program(), json.dumps(told)])
