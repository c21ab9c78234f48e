"""Commands for clusters: their login, what they say where there is none, and how they watch what takes long."""

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.support.node import Node

from hutong.cli import main
from hutong.cli.cluster import operations
from hutong.cli.cluster.asking import security_of
from hutong.cluster.controller.commands import (
    BalanceGroups,
    CommandReply,
    ControllerCommand,
    ControllerStatus,
    DrainNode,
    ForgetNode,
    GroupProgress,
    MemberStatus,
    MoveGroup,
    ShowStatus,
    UndrainNode,
)
from hutong.foundation.errors import UsageError
from hutong.pipelines.client.security import SaslLogin, Security, Tls

PASSWORD = "s3=cret"
PROPERTIES = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.username=alice
sasl.password={PASSWORD}
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node without others, that asks for passwords."""
    folder = tmp_path_factory.mktemp("node")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
        assert main.run(["user", "add", "alice", "--data-dir", str(folder / "data")]) == 0
    with Node(folder, "kafka.protocol=SASL_PLAINTEXT", "sasl.allow_without_tls=true") as running:
        yield running


def test_a_node_alone_says_so(alone: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(PROPERTIES)
    for command in (["drain", "1"], ["status", "--groups"], ["move", "days", "--to", "1,2"], ["balance"]):
        assert main.run(["cluster", *command, "-b", alone.address, "--client-config", str(file)]) == 69
        assert "This node is alone" in capsys.readouterr().err


def test_a_wrong_password_is_told(alone: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(PROPERTIES.replace(PASSWORD, "wrong"))
    assert main.run(["cluster", "elect", "-b", alone.address, "--client-config", str(file)]) == 77
    assert "did not let us in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["move", "days"], "Say where the group shall be"),
        (["move", "days", "--cancel", "--throttle", "5"], "leave out --throttle"),
        (["move", "orders/1", "--to", "1,2,3", "--throttle", "5"], "A partition that moves alone has no throttle"),
        (["move", "days", "--to", "1,b"], "takes the numbers of nodes"),
        (["move", "orders/x", "--to", "1,2"], "is named as TOPIC/NUMBER"),
        (["elect", "--unclean", "2"], "is for one group"),
    ],
)
def test_mistakes_are_told(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cluster", *arguments]) == 64
    assert sentence in capsys.readouterr().err


def test_properties_of_librdkafka_say_how_to_get_in(tmp_path: Path) -> None:
    assert security_of({}) == Security()
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "a", "sasl.password": "b"}
    assert security_of({"security.protocol": "sasl_plaintext", **login}) == Security(
        None, SaslLogin("SCRAM-SHA-256", "a", "b")
    )
    (tmp_path / "key").write_text("KEY")
    tls = {"ssl.ca.location": "/ca", "ssl.certificate.pem": "CERT", "ssl.key.location": str(tmp_path / "key")}
    found = security_of({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none", **tls})
    assert found == Security(Tls("/ca", certificate_pem="CERT", key_pem="KEY", checks_name=False))


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "TLS"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
        {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
        {"security.protocol": "SSL", "ssl.key.location": "/not/there"},
    ],
)
def test_properties_that_cannot_be_used_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        security_of(properties)


class Script:
    """In the place of an operator: replies one after the other, and the last one from then on."""

    def __init__(self, replies: Sequence[CommandReply]) -> None:
        self.replies = list(replies)
        self.asked: list[ControllerCommand] = []

    def __call__(self, bootstrap: str) -> "Script":
        return self

    def ask(self, command: ControllerCommand) -> CommandReply:
        self.asked.append(command)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def status(led: int, *targets: tuple[int, ...] | None) -> ControllerStatus:
    groups = [GroupProgress(f"g{n}", 1, 1, 1, (1, 2), (1, 2), (), 2, target) for n, target in enumerate(targets)]
    return ControllerStatus((MemberStatus(1, True, None, True, led, 0, 2, 0, 0, 0),), tuple(groups))


def member(*, is_live: bool = True, is_drained: bool = False) -> CommandReply:
    """A status with one node."""
    return CommandReply(status=ControllerStatus((MemberStatus(1, is_live, None, is_drained, 0, 0, 0, 0, 0, 0),), ()))


@pytest.mark.parametrize("is_drained", [True, False])
def test_a_node_that_is_added_is_drained_no_more_and_gets_its_share(
    is_drained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    undrained = [CommandReply()] if is_drained else []
    script = Script([member(is_drained=is_drained), *undrained, CommandReply(groups={"g": (1, 2)}), member()])
    monkeypatch.setattr(operations, "Operator", script)
    assert operations.added("x", 1, wait=True) == {"g": (1, 2)}
    undrain: list[ControllerCommand] = [UndrainNode(1)] if is_drained else []
    assert script.asked == [ShowStatus(), *undrain, BalanceGroups(False), ShowStatus()]


def test_a_node_that_is_down_or_unknown_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "Operator", Script([member(is_live=False)]))
    with pytest.raises(UsageError, match="start it first"):
        operations.added("x", 1, wait=True)
    with pytest.raises(UsageError, match="No node 7"):
        operations.added("x", 7, wait=True)


def test_a_node_is_removed_once_it_has_nothing_and_is_stopped(
    slept: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script([member(is_drained=True), member(), member(), member(is_live=False), CommandReply()])
    monkeypatch.setattr(operations, "Operator", script)
    operations.removed("x", 1)
    assert script.asked == [DrainNode(1), *[ShowStatus()] * 3, ForgetNode(1)]
    assert len(slept) == 2
    assert capsys.readouterr().err == "Node 1 has nothing any more: stop it now.\n"


def test_a_node_whose_replicas_nobody_can_take_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = msgspec.structs.replace(member(), groups={"g": (1, 2)})
    script = Script([reply])
    monkeypatch.setattr(operations, "Operator", script)
    with pytest.raises(UsageError, match="No other node can take its replicas of g"):
        operations.removed("x", 1)
    assert script.asked == [DrainNode(1)]


def test_a_new_replica_has_what_it_stored_or_copied_as_whole_files() -> None:
    def moving(lags: dict[int, int], copied: dict[int, int], stream_bytes: int | None = 1_000) -> int | None:
        group = GroupProgress("g", 1, 1, 1, (1, 2, 3), (1, 2), (), 2, (1, 3, 4), (1, 2))
        return msgspec.structs.replace(group, stream_bytes=stream_bytes, lags=lags, copied=copied).copied_bytes

    assert moving({2: 0, 3: 400, 4: 300}, {}) == 600, "the slowest one counts"
    assert moving({3: 400, 4: 1_000}, {4: 700}) == 600
    assert moving({3: 400, 4: 1_000}, {4: 200}) == 200
    assert moving({3: 400}, {}) == 0, "node 4 has not asked its leader for anything yet"
    assert moving({}, {}, None) is None
    assert GroupProgress("g", 1, 1, 1, (1, 2), (1,), (), 2).copied_bytes is None


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("hutong.cli.cluster.operations.time.sleep", slept.append)
    return slept


def test_a_drain_is_watched_until_the_node_leads_nothing_and_no_replica_leaves(
    slept: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script(
        [
            CommandReply(groups={"g0": (2, 3), "g1": (1, 2)}, status=status(1, (2, 3), None)),
            CommandReply(groups={"g0": (2, 3), "g1": (1, 2)}, status=status(0, (2, 3), None)),
            CommandReply(groups={"g1": (1, 2)}, status=status(0, None)),
        ]
    )
    monkeypatch.setattr(operations, "Operator", script)
    assert operations.drained("x", 1, wait=True) == {"g1": (1, 2)}
    assert len(slept) == 2
    assert capsys.readouterr().err.splitlines() == [
        "Node 1: leads 1, 1 replicas are to leave.",
        "Node 1: leads 0, 1 replicas are to leave.",
        "Node 1 leads nothing; it keeps replicas that no other node can take.",
    ]


def test_a_move_is_watched_until_the_group_is_there(
    slept: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moving, done = CommandReply(status=status(1, (2, 3))), CommandReply(status=status(1, None))
    monkeypatch.setattr(operations, "Operator", Script([CommandReply(groups={"g0": (2, 3)}), moving, moving, done]))
    assert operations.moved("x", MoveGroup("g0", (2, 3)), wait=True) == {"g0": (2, 3)}
    assert len(slept) == 2
    assert capsys.readouterr().err.count("on their way: g0") == 1  # it is not said twice
