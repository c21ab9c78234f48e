"""RocketMQ's own clients for tests: Java's in two lines of versions, its tools, and the Go client."""

import json
import os
import pathlib
import subprocess
from typing import Any, Final

import pytest
from tests.support.maven import java_program

SOURCE: Final = pathlib.Path(__file__).parents[1] / "compat" / "java_rocketmq" / "RocketPeer.java"
TRANSACTION_SOURCE: Final = SOURCE.with_name("TransactionPeer.java")
BULK_SOURCE: Final = SOURCE.with_name("BulkPeer.java")
SYNC_SOURCE: Final = SOURCE.with_name("SyncPeer.java")
REQUEST_SOURCE: Final = SOURCE.with_name("RequestPeer.java")
LINES_SOURCE: Final = SOURCE.with_name("JsonLines.java")
OLD: Final = "4.9.8"
NEW: Final = "5.3.3"
PEER: Final = os.environ.get("HUTONG_TEST_ROCKETMQ_PEER") or str(
    pathlib.Path(__file__).resolve().parents[3] / "shared" / "peers" / "rocketmq" / "rocketmq"
)
RUN_S_MAX: Final = 110.0


class RocketPeer:
    """The Java client of a version. `run` returns the objects that it prints."""

    def __init__(self, version: str, folder: pathlib.Path, *options: str, source: pathlib.Path = SOURCE) -> None:
        """`options` are for the Java machine. Another `source` than RocketPeer is compiled with it.

        `folder` is where it keeps the offsets of broadcasting groups: in the home folder otherwise, for ever.
        """
        self.version = version
        # slf4j-nop: what the client logs goes to files in the home folder otherwise.
        artifacts = (f"org.apache.rocketmq:rocketmq-client:{version}", "org.slf4j:slf4j-nop:1.7.36")
        all_options = (
            "-Drocketmq.client.logUseSlf4j=true",
            f"-Drocketmq.client.localOffsetStoreDir={folder}",
            *options,
        )
        also = [LINES_SOURCE] if source == SOURCE else [LINES_SOURCE, SOURCE]
        self._words = java_program(f"rocketmq-{version}", source, *artifacts, also=also, options=all_options)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start it with these words; read its output with `told`."""
        return subprocess.Popen([*self._words, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start_with_input(self, *words: str) -> "subprocess.Popen[str]":
        """Start one that runs until its input ends; nobody reads what it complains of."""
        return subprocess.Popen(
            [*self._words, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, *words: str) -> list[dict[str, Any]]:
        """The objects of a whole run."""
        return told(self.start(*words))


def lines_of(process: "subprocess.Popen[str]", run_s_max: float) -> list[list[str]]:
    """The fields of each line that a program has printed by its end, which must be in order."""
    try:
        out, err = process.communicate(timeout=run_s_max)
    finally:
        process.kill()
    assert process.returncode == 0, err[-3_000:]
    assert not err, err[-3_000:]
    return [line.split("\t") for line in out.splitlines()]


def told(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """The objects that a program has printed by its end, which must be in order."""
    try:
        out, err = process.communicate(timeout=RUN_S_MAX)
    finally:
        process.kill()
    assert process.returncode == 0, err[-3_000:]
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def peer_program(*words: str) -> str:
    """The output of the peers' script, which has RocketMQ's tools and the Go client. Skips where it is not there."""
    if not pathlib.Path(PEER).exists():
        pytest.skip("the script that has RocketMQ's tools is not there")
    done = subprocess.run([PEER, *words], capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    return done.stdout
