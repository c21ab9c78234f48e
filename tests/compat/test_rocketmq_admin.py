"""RocketMQ's `mqadmin` prints on a node what it prints on RocketMQ 5.5.

What it prints there is kept in rocketmq_admin/NAME.txt. `make compat` runs the same commands on RocketMQ too, and holds
the kept text to it; with TEST_RECORD=1 it is written anew. HUTONG_TEST_ROCKETMQ_PEER names the
script that starts RocketMQ.

`DIFFERENCES` has what differs and is meant to, each with its reason: docs/rocketmq-admin.md has the same table.
"""

import base64
import difflib
import operator
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest
from bench.processes import ReadyProcess
from bench.targets import free_port
from tests.support.kafka_tools import QUICK_START, peer_jars
from tests.support.maven import java_program
from tests.support.rocketmq import LINES_SOURCE, NEW, OLD, PEER, RocketPeer, told
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
VERSION: Final = "5.5.0"
RUNNER: Final = Path(__file__).parent / "java_rocketmq" / "AdminRunner.java"
FOLDER: Final = Path(__file__).parent / "rocketmq_admin"
NO_LOGS: Final = "org.slf4j:slf4j-nop:1.7.36"
SLOW: Final = pytest.mark.thorough
RECORDS: Final = bool(os.environ.get("TEST_RECORD"))
START_S_MAX: Final = 240.0
QUIET: Final = '<configuration><root level="OFF"/></configuration>'
BROKER_NAME: Final = "broker-a"
TOPICS: Final = """
    updateTopic -b BROKER -t TOPIC -r 4 -w 4
    updateTopic -c DefaultCluster -t TOPIC-more -r 2 -w 2
    updateTopic -b BROKER -t bad!name
    topicRoute -t TOPIC
    topicRoute -t TOPIC-absent
    clusterList
    brokerStatus -b BROKER
    topicStatus -t TOPIC
    updateSubGroup -b BROKER -g GROUP -s true -r 3 -q 1
    getConsumerConfig -g GROUP
    consumerProgress -g GROUP
    consumerConnection -g GROUP
    producerConnection -g GROUP -t TOPIC
    resetOffsetByTime -g GROUP-absent -t TOPIC -s 0
    deleteTopic -c DefaultCluster -t TOPIC-more
    deleteTopic -c DefaultCluster -t TOPIC-absent
    topicList
"""
MESSAGES: Final = """
    updateTopic -b BROKER -t TOPIC -r 2 -w 2
    topicClusterList -t TOPIC
    sendMessage -t TOPIC -b broker-a -i 0 -p hello -k key-1 -c red
    printMsg -t TOPIC
    sendMessage -t TOPIC -b broker-a -i 1 -p world -k key-2
    topicStatus -t TOPIC
    queryMsgByKey -t TOPIC -k key-1
    queryMsgByKey -t TOPIC -k absent
    queryMsgById -t TOPIC -i OFFSET_ID
    queryMsgByUniqueKey -t TOPIC -i UNIQUE_KEY
    queryMsgByOffset -t TOPIC -b broker-a -i 1 -o 0
"""
BEFORE: Final = """
    updateTopic -b BROKER -t TOPIC -r 2 -w 2
    sendMessage -t TOPIC -b broker-a -i 0 -p hello
    sendMessage -t TOPIC -b broker-a -i 1 -p world
    updateSubGroup -b BROKER -g GROUP
"""
SIGNED: Final = """
    updateTopic -b BROKER -t TOPIC -r 1 -w 1
    sendMessage -t TOPIC -b broker-a -i 0 -p hello -k key-1
    queryMsgByUniqueKey -t TOPIC -i UNIQUE_KEY
    consumerProgress
"""
ONLINE: Final = """
    consumerConnection -g GROUP
    consumerProgress -g GROUP
    consumerProgress
    topicList -c
    resetOffsetByTime -g GROUP -t TOPIC -s 0
"""
AFTERWARDS: Final = """
    consumerConnection -g GROUP
    deleteSubGroup -b BROKER -g GROUP
"""


class Change(NamedTuple):
    """A pattern, and what it becomes on both sides. `reason` is empty for what differs between two runs, too."""

    pattern: str
    word: str
    reason: str = ""
    command: str = ""  # that it is for; for all otherwise


ALWAYS: Final = (
    Change(r"^\tat .*\n|^\t\.\.\. \d+ more\n", ""),
    Change(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    Change(r"/?127\.0\.0\.1:\d+", "ADDRESS"),
    Change(r"\b[0-9A-F]{56}\b|\b[0-9A-F]{32}\b", "ID"),
    Change(r"\b1[0-9]{12}\b", "MILLISECONDS"),
    Change(r"\S+@\d+(#\d+)?(?= +ADDRESS)", "CLIENT"),
    Change(r"(?<=bornHost=)\S+(?=,)|(?<=Born Host: )\s*\S+", "HOST"),
    Change(r"\[ \d+ days.*\]", "DURATION"),
    Change(r"^(DefaultCluster +)?T\d+\b.*\n", "", "", "topicList"),  # of the pages before
    Change(r"[ \t]+", " "),
    Change(r" +$", ""),
)
DIFFERENCES: Final = (
    Change(
        r"^(DefaultCluster )?(RMQ_SYS_|rmq_sys_|BenchmarkTest|OFFSET_MOVED|TBW102|SELF_TEST|SCHEDULE_TOPIC"
        r"|DefaultCluster|broker-a$|%RETRY%TOOLS_CONSUMER)(_REPLY_TOPIC)?\S*$\n",
        "",
        "RocketMQ has topics and groups for itself",
        "topicList",
    ),
    Change(r"^TOOLS_CONSUMER .*\n", "", "RocketMQ has topics and groups for itself", "consumerProgress"),
    Change(r"(?<=ADDRESS )(V5_5_0|HUTONG) .*", "VERSION FIGURES", "the version is the node's, its figures are its own"),
    Change(r"(?<=brokerVersionDesc : ).*", "VERSION", "the version is the node's"),
    Change(
        # Of a broker that has just started, the rates have no figures.
        r"^(?!brokerActive|brokerVersion|bootTime|runtime)\S+ ?:.*\n",
        "",
        "RocketMQ tells of queues, thread pools and files that a node does not have",
        "brokerStatus",
    ),
    Change(
        r"((MSG_REGION|CLUSTER|TRACE_ON)=\w+, )|, (MSG_REGION|CLUSTER|TRACE_ON)=\w+(?=})",
        "",
        "RocketMQ's broker adds properties to a message; a node stores what was sent",
    ),
    Change(r"(storeSize=)\d+", r"\1N", "so messages are smaller"),
    Change(
        r"(CommitLog Offset: |commitLogOffset=|@ID@)(\d+|MILLISECONDS)",
        r"\1N",
        "a physical offset numbers the queue, too",
    ),
    Change(r"^(See|For more information).*FAQ.*\n", "", "RocketMQ's name server names its help"),
    Change(r"(CODE: 29 DESC: ).*", r"\1REASON", "names of topics may also have dots, and no '|'"),
    Change(r"(Consume TPS|Topic Put TPS): [0-9.]+", r"\1: RATE", "a node measures no rates for each group"),
    Change(
        r"\d+(?= (TIME|N/A)$)|(?<=Inflight Total: )\d+",
        "INFLIGHT",
        "a node does not count what is in flight",
        "consumerProgress",
    ),
)


class Admin:
    """The Java process that runs commands of mqadmin."""

    def __init__(self, folder: Path) -> None:
        (folder / "rmq.logback.xml").write_text(QUIET)
        artifacts = (f"org.apache.rocketmq:rocketmq-tools:{VERSION}",)
        options = (*QUICK_START, f"-Duser.home={folder}")
        self._command = java_program("rocketmq-admin", RUNNER, *artifacts, held=peer_jars("rocketmq"), options=options)
        self._command[self._command.index("-cp") + 1] += f":{folder}"
        self._folder = folder

    def __enter__(self) -> Self:
        environment = {**os.environ, "ROCKETMQ_HOME": str(self._folder)}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\t".join(base64.b64encode(word.encode()) for word in words) + b"\n")
        self._process.stdin.flush()
        return base64.b64decode(self._process.stdout.readline()).decode()


class Server(NamedTuple):
    name_server: str
    broker: str


Page = Callable[[Admin, Server, Path], str]
NAME_OF: Final = operator.attrgetter("__name__")


class Transcript:
    """The commands that were run on a server, and what they have printed, in words that both have in common."""

    def __init__(self, admin: Admin, server: Server, topic: str, group: str) -> None:
        self.text = ""
        self._admin = admin
        self._server = server
        self._words = {"TOPIC": topic, "GROUP": group, "BROKER": server.broker}
        self._names = {topic: "TOPIC", group: "GROUP"}

    def run(self, commands: str) -> None:
        for line in filter(None, map(str.strip, commands.splitlines())):
            # Words alone: an absent name is a longer one.
            filled = re.sub(r"[A-Z_]{5,}", lambda found: self._words.get(found[0], found[0]), line)
            name, *rest = filled.split()
            printed = self._admin.run(name, "-n", self._server.name_server, *rest)
            self._note_ids(printed)
            for known, word in self._names.items():
                printed = printed.replace(known, word)
            for change in (*ALWAYS, *DIFFERENCES):
                if change.command not in ("", name):
                    continue
                printed = re.sub(change.pattern, change.word, printed, flags=re.MULTILINE)
            lines = printed.strip().splitlines()
            # Lists come in no order.
            if name in ("topicList", "printMsg", "brokerStatus", "resetOffsetByTime", "consumerConnection"):
                lines.sort()
            self.text += f"$ {line}\n" + "".join(f"{each}\n" for each in lines) + "\n"

    def _note_ids(self, printed: str) -> None:
        unique = re.search(r"SEND_OK +([0-9A-F]{56}|[0-9A-F]{32})\b", printed)
        stored = re.search(r"msgId=([0-9A-F]{32})", printed)
        self._words |= {"UNIQUE_KEY": unique[1]} if unique else {}
        self._words |= {"OFFSET_ID": stored[1]} if stored else {}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    with Admin(tmp_path_factory.mktemp("mqadmin")) as running:
        yield running


@pytest.fixture(scope="module")
def node() -> Iterator[Server]:
    settings = {"rocketmq.listen": "127.0.0.1:0", "rocketmq.broker_name": BROKER_NAME}
    with EmbeddedNode(settings=settings) as running:
        assert running.rocketmq is not None
        yield Server(running.rocketmq, running.rocketmq)


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not os.access(PEER, os.X_OK):
        pytest.skip("no RocketMQ peer: name its script in HUTONG_TEST_ROCKETMQ_PEER")
    ports = ["--port", str(free_port()), "--broker-port", str(free_port())]
    process = ReadyProcess([PEER, "start", *ports], log_path=str(tmp_path_factory.mktemp("rocketmq") / "log"))
    with process.start(START_S_MAX):
        yield Server(process.fields["0"], process.fields["broker"])


def topics(admin: Admin, server: Server, _folder: Path) -> str:
    transcript = Transcript(admin, server, f"T{free_port()}", "readers-off")
    transcript.run(TOPICS)
    return transcript.text


def messages(admin: Admin, server: Server, _folder: Path) -> str:
    transcript = Transcript(admin, server, f"T{free_port()}", "readers-off")
    transcript.run(MESSAGES)
    return transcript.text


def online(admin: Admin, server: Server, folder: Path) -> str:
    """With a consumer that has read two messages, and ends when it has read them again."""
    topic, group = f"T{free_port()}", "readers-on"
    transcript = Transcript(admin, server, topic, group)
    transcript.run(BEFORE)
    consumer = RocketPeer(NEW, folder).start("push", server.name_server, topic, group, "*", "4")
    try:
        until(lambda: _committed(admin, server, group), what="both messages are committed")
        transcript.run(ONLINE)
        assert sorted(each["body"] for each in told(consumer)) == ["hello", "hello", "world", "world"]
    finally:
        consumer.kill()
    transcript.run(AFTERWARDS)
    return transcript.text


def _committed(admin: Admin, server: Server, group: str) -> bool:
    printed = admin.run("consumerProgress", "-n", server.name_server, "-g", group)
    return len(re.findall(r"\d\d:\d\d:\d\d", printed)) == 2


@pytest.mark.parametrize(
    "page", [messages, pytest.param(topics, marks=SLOW), pytest.param(online, marks=SLOW)], ids=NAME_OF
)
def test_mqadmin_prints_what_it_prints_on_rocketmq(page: Page, admin: Admin, node: Server, tmp_path: Path) -> None:
    _compare(page, page(admin, node, tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("page", [topics, messages, online], ids=NAME_OF)
def test_what_is_kept_is_what_rocketmq_prints(page: Page, admin: Admin, rocketmq: Server, tmp_path: Path) -> None:
    printed = page(admin, rocketmq, tmp_path)
    if RECORDS:
        _kept(page).write_text(printed)
    _compare(page, printed)


def _kept(page: Page) -> Path:
    return FOLDER / f"{NAME_OF(page)}.txt"


def _compare(page: Page, printed: str) -> None:
    kept = _kept(page).read_text()
    lines = difflib.unified_diff(kept.splitlines(), printed.splitlines(), "RocketMQ", "here", lineterm="")
    assert kept == printed, "\n".join(lines)


@contextmanager
def guarded_node(folder: Path) -> Iterator[Server]:
    """A node on which `root`, who signs with `rootsecret`, may do everything, and others nothing."""
    keys = folder / "keys"
    keys.write_text("root = rootsecret\n")
    keys.chmod(0o600)
    settings = {
        "rocketmq.listen": "127.0.0.1:0",
        "rocketmq.broker_name": BROKER_NAME,
        "rocketmq.access_keys": str(keys),
        "security.authorize": "true",
        "security.super_users": "User:root",
    }
    with EmbeddedNode(settings=settings) as node:
        assert node.rocketmq is not None
        yield Server(node.rocketmq, node.rocketmq)


def test_mqadmin_signs_its_requests(tmp_path: Path) -> None:
    with guarded_node(tmp_path) as server:
        for secret, is_right in (("rootsecret", True), ("anothersecret", False)):
            home = tmp_path / secret
            (home / "conf").mkdir(parents=True)
            (home / "conf" / "tools.yml").write_text(f"accessKey: root\nsecretKey: {secret}\n")
            with Admin(home) as admin:
                transcript = Transcript(admin, server, "T", "readers")
                transcript.run(SIGNED if is_right else "updateTopic -b BROKER -t TOPIC -r 1 -w 1")
                assert ("CODE: 16" in transcript.text) is not is_right, transcript.text
                if is_right:
                    assert transcript.text.count("MessageTrack") + transcript.text.count("WARN: No Consumer") == 1


@pytest.mark.thorough
def test_javas_client_of_4_9_signs_its_requests(tmp_path: Path) -> None:
    artifacts = (f"org.apache.rocketmq:rocketmq-client:{OLD}", f"org.apache.rocketmq:rocketmq-acl:{OLD}", NO_LOGS)
    options = ("-Drocketmq.client.logUseSlf4j=true", f"-Duser.home={tmp_path}")
    source, also = RUNNER.with_name("AclPeer.java"), [LINES_SOURCE]
    program = java_program(f"rocketmq-acl-{OLD}", source, *artifacts, also=also, options=options)
    with guarded_node(tmp_path) as server:
        for secret, expected in (
            ("rootsecret", [{"sent": "SEND_OK"}, {"received": "key-1"}]),
            ("anothersecret", [{"refused": True}]),
        ):
            words = [*program, server.name_server, "T", "readers", "root", secret]
            done = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert told(done) == expected
