"""Kafka's own command-line tools, run one after the other in one Java process, and what they print made comparable.

Strategy: `Tools` is the process, `Shell` writes down commands and their output for one broker. What differs from run to
run (addresses, ids, times, figures) becomes a word; runs of blanks become one, since the tools pad columns by the
longest name. A transcript is text which is compared as a whole.

Knows nothing of tests and of what the tools should say.
"""

import base64
import os
import pathlib
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from tests.support.maven import java_program

VERSION: Final = "4.3.0"
RUNNER: Final = pathlib.Path(__file__).parents[1] / "compat" / "kafka_tools" / "ToolRunner.java"
TOOL_S_MAX: Final = 60.0
QUICK_START: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
PACKAGE: Final = "org.apache.kafka.tools."
TOOLS: Final = {
    "broker-api-versions": "BrokerApiVersionsCommand",
    "client-metrics": "ClientMetricsCommand",
    "cluster": "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "consumer.ConsoleConsumer",
    "console-producer": "ConsoleProducer",
    "console-share-consumer": "consumer.ConsoleShareConsumer",
    "consumer-groups": "consumer.group.ConsumerGroupCommand",
    "consumer-perf": "ConsumerPerformance",
    "acls": "AclCommand",
    "delegation-tokens": "DelegationTokenCommand",
    "delete-records": "DeleteRecordsCommand",
    "e2e-latency": "EndToEndLatency",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "groups": "GroupsCommand",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "metadata-quorum": "MetadataQuorumCommand",
    "producer-perf": "ProducerPerformance",
    "reassign-partitions": "reassign.ReassignPartitionsCommand",
    "share-groups": "consumer.group.ShareGroupCommand",
    "streams-groups": "streams.StreamsGroupCommand",
    "topics": "TopicCommand",
    "transactions": "TransactionsCommand",
    "verifiable-consumer": "VerifiableConsumer",
    "verifiable-producer": "VerifiableProducer",
    "verifiable-share-consumer": "VerifiableShareConsumer",
}
ADDRESS_FIRST: Final = ("features", "metadata-quorum", "transactions")  # before their command, others after it


def peer_jars(peer: str = "kafka") -> pathlib.Path | None:
    """The folder in which the start script of a peer keeps its jars, if it has fetched them."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hutong-peers" / peer
    return cache if (cache / ".complete").exists() else None


class ToolDidNotEnd(Exception):
    """The Java process ended, or a tool kept it longer than it may."""


class Tools:
    """The Java process. `with Tools() as tools`; skips the test where Java or the jars cannot be had."""

    def __init__(self, *options: str) -> None:
        """`options` are for the Java machine."""
        self._command = java_program(
            "kafka-tools",
            RUNNER,
            f"org.apache.kafka:kafka_2.13:{VERSION}",
            f"org.apache.kafka:kafka-tools:{VERSION}",
            "org.slf4j:slf4j-nop:1.7.36",
            held=peer_jars(),
            options=(*QUICK_START, *options),
        )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, tool: str, arguments: Iterable[str], given: str, limit_s: float) -> tuple[str, str, str]:
        """Exit status, standard output and standard error of one command."""
        name = TOOLS[tool]
        fields = (str(int(limit_s * 1000)), given, name if name.startswith("kafka.") else PACKAGE + name, *arguments)
        assert self._process.stdin is not None
        self._process.stdin.write(b"\t".join(base64.b64encode(field.encode()) for field in fields) + b"\n")
        self._process.stdin.flush()
        try:
            answer = self._answers.get(timeout=limit_s + 30)
        except queue.Empty:
            raise ToolDidNotEnd(f"{tool} does not end") from None
        if not answer:
            raise ToolDidNotEnd(f"{tool}: the Java process ended")
        status, out, err = (base64.b64decode(field).decode() for field in answer.rstrip(b"\n").split(b"\t"))
        return status, out, err

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")


BROKER: Final = "<broker>"
"""Among arguments: the number of the broker that is connected to. The transcript says 1."""
Change = Callable[[str], str]
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ALWAYS: Final = (
    (r"127\.0\.0\.1:\d+|localhost:\d+", "HOST:PORT"),
    (r"/?127\.0\.0\.1", "HOST"),
    (_UUID, "UUID"),
    (r"(?i)(topic ?id:|topicid=|cluster id:) ?[\w-]{19,22}", r"\1 ID"),
    (r"[\w+/-]{22}(?==*[ \t]+HOST)", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[:.,]\d{3}Z?", "TIME"),
    (r"^(! )?[ \t]*(at .+\(.+\)|\.\.\. \d+ more)\n", ""),  # where in the tool an error came from
    (r"(kafka\.common\.errors\.\w+): .*", r"\1: REASON"),
    (r"(Error while executing topic command :) .*", r"\1 REASON"),
    (r"[ \t]+", " "),
    (r" +$", ""),
)


def figures(text: str) -> str:
    """Measured numbers become N."""
    return re.sub(r"\d+([.,]\d+)?", "N", text)


def in_order(text: str) -> str:
    """Lines whose order means nothing."""
    return "".join(sorted(text.splitlines(keepends=True)))


class Shell:
    """The input and output. `unique` keeps the names of one run from those of others on the same broker.

    In a cluster some commands are left out: those for one node alone, and while nodes are down those for a whole one.
    """

    def __init__(
        self,
        tools: Tools,
        bootstrap: str,
        unique: str,
        folder: pathlib.Path,
        *,
        broker: int = 1,
        nodes: int = 1,
        down: int = 0,
    ) -> None:
        self.bootstrap = bootstrap
        self.left_out: set[int] = set()  # the numbers of commands, from 0
        self._count = 0
        self._broker = str(broker)
        self._is_alone, self._is_whole = nodes == 1, down == 0
        self._tools = tools
        self._folder = folder
        self._mark = f"-{unique}"
        self._lines: list[str] = []

    @property
    def transcript(self) -> str:
        return "".join(self._lines)

    def name(self, word: str) -> str:
        """A name for a topic, a group, a user; the transcript shows the word alone."""
        return word + self._mark

    def __call__(
        self,
        tool: str,
        *arguments: str,
        given: str = "",
        mine: bool = False,
        then: Iterable[Change] = (),
        limit_s: float = TOOL_S_MAX,
    ) -> str:
        """Runs the tool, told the broker's address; returns the standard output as it is.

        `mine` keeps only the lines that name what `name` gave, `then` changes what is written down.
        """
        address = ["--bootstrap-server", self.bootstrap]
        self._count += 1
        asked = [self._broker if word == BROKER else word for word in arguments]
        words = [*address, *asked] if tool in ADDRESS_FIRST else [*asked, *address]
        status, out, err = self._tools.run(tool, words, given, limit_s)
        told = out + "".join(f"! {line}\n" for line in err.splitlines())
        if mine:
            told = "".join(line for line in told.splitlines(keepends=True) if self._mark in line)
        told = self.plain(told)
        for change in then:
            told = change(told)
        self._lines += [
            self.plain(f"$ {tool} {' '.join(arguments)}\n").replace(BROKER, "1"),
            *(f"< {line}\n" for line in given.splitlines()),
        ]
        self._lines += [
            told.rstrip("\n") + "\n" if told.strip() else "",
            f"= {status}\n" if status != "0" else "",
            "\n",
        ]
        return out

    def alone(self, tool: str, *arguments: str, **rest: Any) -> None:
        """Run the tool where there is one node, which can do what a cluster does in another way."""
        if self._is_alone:
            self(tool, *arguments, **rest)
        else:
            self._leave_out()

    def whole(self, tool: str, *arguments: str, **rest: Any) -> None:
        """Run the tool where all nodes are up: otherwise it tells of those that are down."""
        if self._is_whole:
            self(tool, *arguments, **rest)
        else:
            self._leave_out()

    def _leave_out(self) -> None:
        self.left_out.add(self._count)
        self._count += 1

    def file(self, name: str, content: str) -> str:
        """A file for a tool to read: its path."""
        path = self._folder / name
        path.write_text(content)
        return str(path)

    def plain(self, text: str) -> str:
        text = text.replace(self._mark, "").replace(str(self._folder), "FOLDER")
        for pattern, word in _ALWAYS:
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        return text
