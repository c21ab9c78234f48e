"""RocketMQ 5's gRPC client by way of RocketMQ's own proxy, for which a node is name server and broker."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.maven import java_program
from tests.support.rocketmq import peer_program, told

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.thorough, pytest.mark.timeout(300)]
FOLDER: Final = Path(__file__).parent / "java_rocketmq"
PROXY: Final = "org.apache.rocketmq:rocketmq-proxy:5.5.0"
CLIENT: Final = "org.apache.rocketmq:rocketmq-client-java:5.0.7"
START_S_MAX: Final = 90.0
STARTED: Final = "rocketmq-proxy startup successfully"
_CONFIGURATION: Final = """{{"rocketMQClusterName": "DefaultCluster", "namesrvAddr": "{node}", "proxyMode": "CLUSTER",
"grpcServerPort": {grpc}, "remotingListenPort": {remoting}}}"""
_LOGGING: Final = """<configuration><appender name="file" class="ch.qos.logback.core.FileAppender">
<file>{folder}/log</file><encoder><pattern>%level %logger %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="file"/></root></configuration>"""
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    settings = {
        "rocketmq.listen": "127.0.0.1:0",
        "rocketmq.transaction_timeout_ms": "2000",
        "rocketmq.transaction_check_interval_ms": "2000",
    }
    with EmbeddedNode(settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(node: EmbeddedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which a proxy in cluster mode takes gRPC."""
    folder = tmp_path_factory.mktemp("proxy")
    grpc, remoting = _free_port(), _free_port()
    words = java_program("rocketmq-proxy-5.5.0", FOLDER / "ProxyRunner.java", PROXY)
    (folder / "conf").mkdir()
    configuration = folder / "conf" / "rmq-proxy.json"
    configuration.write_text(_CONFIGURATION.format(node=node.rocketmq, grpc=grpc, remoting=remoting))
    logging = folder / "conf" / "logback.xml"
    logging.write_text(_LOGGING.format(folder=folder))
    options = (f"-Duser.home={folder}", f"-Drmq.logback.configurationFile={logging}")
    command = [words[0], *options, *words[1:], "-pm", "cluster", "-n", node.rocketmq or "", "-pc", str(configuration)]
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={"ROCKETMQ_HOME": str(folder)})
    try:
        _wait_for(process, folder / "out")
        yield f"127.0.0.1:{grpc}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def run(node: EmbeddedNode, proxy: str) -> Run:
    """Run one step of the client with a new topic."""
    words = java_program("rocketmq-client-java-5.0.7", FOLDER / "ProxyPeer.java", CLIENT)

    def run_step(step: str, topic: str, message_type: str = "MIXED") -> list[dict[str, Any]]:
        node.create_topic(topic, partitions=4, config={"hutong.message.type": message_type})
        return told(subprocess.Popen([*words, proxy, step, topic], stdout=-1, stderr=-1, text=True))

    return run_step


def test_a_push_consumer_gets_what_was_sent_and_again_what_failed(run: Run) -> None:
    *found, finished = run("push", "ProxyPushed")
    assert finished == {"finished": True}
    assert sorted(each["got"] for each in found) == sorted([*(f"m{number}" for number in range(50)), "m7"])
    assert [each["attempt"] for each in found if each["got"] == "m7"] == [1, 2]
    (one,) = [each for each in found if each["got"] == "m3"]
    assert one == {"got": "m3", "keys": "[k3]", "tag": "a", "colour": "red", "attempt": 1}


def test_a_simple_consumer_receives_by_tags_and_by_properties(run: Run) -> None:
    assert run("simple", "ProxySimple") == [
        {"group": "by-tag", "messages": 25, "deliveries": 25},
        {"group": "by-sql", "messages": 25, "deliveries": 25},
    ]


def test_a_delayed_message_comes_at_its_time(run: Run) -> None:
    assert run("delay", "ProxyDelayed") == [{"got": "late", "early": False}, {"finished": True}]


def test_messages_of_a_message_group_come_in_order(run: Run, node: EmbeddedNode) -> None:
    # As on RocketMQ, a group is in order by its own setting.
    words = (
        "updateSubGroup",
        "-n",
        node.rocketmq or "",
        "-c",
        "DefaultCluster",
        "-g",
        "ProxyOrdered-group",
        "-o",
        "true",
    )
    assert "success" in peer_program("tool", "admin", *words)
    finished, *found = run("ordered", "ProxyOrdered")
    assert finished == {"finished": True}
    assert {each["messageGroup"]: each["bodies"] for each in found} == {
        f"mg{group}": str([*range(group, 40, 4)]) for group in range(4)
    }


def test_transactions_are_committed_and_rolled_back(run: Run) -> None:
    assert run("transactions", "ProxyTransactions") == [{"got": "commit"}, {"finished": True}]


def test_open_transactions_are_asked_about(run: Run) -> None:
    assert run("checked", "ProxyChecked", "TRANSACTION") == [{"got": "yes"}, {"finished": True}]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for(process: "subprocess.Popen[bytes]", out: Path) -> None:
    """Wait until the proxy says that it has started. Raises AssertionError where it has ended, or takes too long."""
    give_up_s = time.monotonic() + START_S_MAX
    while STARTED not in (said := out.read_text()):
        assert process.poll() is None, said[-3_000:]
        assert time.monotonic() < give_up_s, said[-3_000:]
        # Until it ends, which it does not do: no wait that a test has to tune.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
