"""A node of a real Vert.x cluster, driven by a test: `DrivenNode.java` has its commands."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.driven_process import DrivenProcess
from tests.support.maven import java_program

SESSION_MS: Final = 4_000
VERSIONS: Final = {"4": "4.5.27", "5": "5.0.7"}
"""Vert.x by the first digit of its version. There is no vertx-zookeeper for 5.1 at Maven Central."""
MOSTLY_5: Final = (pytest.param("4", marks=pytest.mark.thorough), "5")
"""The same as parameters of tests whose subject is the same in both."""
_FOLDER: Final = Path(__file__).parents[1] / "compat" / "java_vertx"
_MAIN: Final = _FOLDER / "DrivenNode.java"
_PARTS: Final = ("vertx-core", "vertx-zookeeper", "vertx-service-proxy")
_OPTIONS: Final = (
    "-Dvertx.disableFileCPResolving=true",
    "-Dvertx.disableFileCaching=true",
    "-Djava.util.logging.config.file=/dev/null",  # Vert.x's log, which nobody reads
)


def vertx_program(version: str) -> list[str]:
    """The words that run a node; it takes its settings behind them. Skips where Java or Maven are missing."""
    number = VERSIONS[version]
    artifacts = [f"io.vertx:{part}:{number}" for part in _PARTS]
    sources = sorted({*_FOLDER.glob("*.java"), *(_FOLDER / f"of{version}").glob("*.java")} - {_MAIN})
    return java_program(
        f"vertx-{number}",
        _MAIN,
        *artifacts,
        f"io.vertx:vertx-codegen:{number}:processor",
        "org.slf4j:slf4j-nop:1.7.36",
        also=sources,
        options=_OPTIONS,
        package="driven",
        generates=True,
    )


class VertxNode(DrivenProcess):
    """One node of Vert.x."""

    def __init__(
        self,
        zookeeper: str,
        version: str,
        *,
        session_ms: int = SESSION_MS,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`version` is a key of VERSIONS; `prefix` are the words that lead to the network of `host`."""
        told = {"zookeeper": zookeeper, "session": session_ms, "host": host, **(settings or {})}
        super().__init__([*prefix, *vertx_program(version), json.dumps(told)])
