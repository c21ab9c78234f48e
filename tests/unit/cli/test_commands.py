"""Every command that talks to a broker, against one: what it prints, and what it is told when something is missing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.node import Node

from hutong.cli import main


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node for each test: a test that is run again finds nothing of its first run."""
    with Node(tmp_path_factory.mktemp("node"), "metrics.listen=127.0.0.1:0") as running:
        yield running


class Hutong:
    """Runs command lines against the node and keeps what they printed."""

    def __init__(self, bootstrap: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        self.bootstrap = bootstrap
        self.captured = capsysbinary
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        """The standard output of `hutong words...`, which must end with `code`."""
        ended = main.run([*words, "--bootstrap", self.bootstrap])
        printed = self.captured.readouterr()
        self.err = printed.err.decode()
        assert ended == code, self.err
        return printed.out.decode()

    def rows(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self(*words, "--json").splitlines()]


@pytest.fixture
def hutong(node: Node, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Hutong:
    monkeypatch.setenv("COLUMNS", "120")
    return Hutong(node.address, capsysbinary)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Twelve lines `kN:vN`."""
    path = tmp_path / "lines"
    path.write_text("".join(f"k{number}:v{number}\n" for number in range(12)))
    return path


def test_a_topic_from_creation_to_deletion(hutong: Hutong, lines: Path) -> None:
    hutong("topic", "create", "life", "--partitions", "2", "-c", "retention.ms=3600000")
    hutong("topic", "create", "life", code=73)
    assert "--if-absent" in hutong.err
    hutong("topic", "create", "life", "--if-absent")
    hutong("produce", "life", str(lines))
    (listed,) = hutong.rows("topic", "list")
    assert listed.pop("bytes") > 12 * len("kN:vN")
    assert listed == {"topic": "life", "partitions": 2, "records": 12}
    assert hutong.rows("topic", "list", "--rates", "0.01")[0]["records_per_second"] == 0
    (described,) = hutong.rows("topic", "describe", "life")
    assert [row["partition"] for row in described["partitions"]] == [0, 1]
    assert sum(row["end_offset"] for row in described["partitions"]) == 12
    assert {"config": "retention.ms", "value": "3600000", "source": "topic"} in described["configs"]
    assert "Topic life" in hutong("topic", "describe", "life")
    hutong("topic", "delete", "life", "--yes")
    hutong("topic", "describe", "life", code=66)
    assert "There is no topic life" in hutong.err


def test_altering_a_topic(hutong: Hutong) -> None:
    hutong("topic", "create", "altered", "-c", "retention.ms=1000")
    hutong("topic", "alter", "altered", "-c", "retention.ms=2000", "--partitions", "3")
    (described,) = hutong.rows("topic", "describe", "altered")
    assert len(described["partitions"]) == 3
    assert {"config": "retention.ms", "value": "2000", "source": "topic"} in described["configs"]
    hutong("topic", "alter", "altered", "--unset", "retention.ms")
    (described,) = hutong.rows("topic", "describe", "altered")
    (retention,) = [row for row in described["configs"] if row["config"] == "retention.ms"]
    assert retention["value"] == "604800000"
    assert retention["source"] in {"node", "default"}


def test_wrong_topics_are_refused_with_the_brokers_words(hutong: Hutong) -> None:
    hutong("topic", "create", "bad-setting", "-c", "retention.msx=1", code=76)
    assert "The broker refused the topic bad-setting" in hutong.err
    assert "retention.msx" in hutong.err
    hutong("topic", "delete", "nowhere", "--yes", code=66)
    hutong("consume", "nowhere", code=66)
    hutong("consume", "nowhere", "--group", "g", code=66)
    hutong("topic", "describe", "nowhere", code=66)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_what_is_consumed(hutong: Hutong, lines: Path, compression: str) -> None:
    topic = f"round-{compression}"
    report = hutong.rows(
        "produce", topic, str(lines), "-k", ":", "-H", "trace=1", "--compression", compression, "--acks", "1"
    )
    assert report[0]["records"] == 12
    assert report[0]["bytes"] == len("k0v0") * 10 + len("k10v10") * 2
    assert hutong("consume", topic, "-k", ":") == lines.read_text()
    records = hutong.rows("consume", topic, "--max", "1")
    assert [record["headers"] for record in records] == [[["trace", "1"]]]
    assert (records[0]["partition"], records[0]["offset"], records[0]["key"], records[0]["value"]) == (0, 0, "k0", "v0")


@pytest.mark.parametrize(
    ("position", "expected"), [("beginning", 12), ("end", 0), ("9", 3), ("-2", 2), ("-100", 12), ("2015-05-17", 12)]
)
def test_reading_from_a_position(hutong: Hutong, lines: Path, position: str, expected: int) -> None:
    topic = f"from{position}"
    hutong("produce", topic, str(lines))
    assert len(hutong.rows("consume", topic, f"--from={position}")) == expected


def test_a_partition_of_its_own(hutong: Hutong, lines: Path) -> None:
    hutong("topic", "create", "parts", "-p", "3")
    hutong("produce", "parts", str(lines), "--partition", "2")
    assert len(hutong.rows("consume", "parts", "--partition", "2")) == 12
    assert hutong.rows("consume", "parts", "--partition", "1") == []
    hutong("consume", "parts", "--partition", "3", code=66)
    hutong("produce", "parts", str(lines), "--partition", "3", code=66)
    assert "0 of" in hutong.err


def test_tail_follows_from_the_last_records(hutong: Hutong, lines: Path) -> None:
    hutong("produce", "tailed", str(lines), "-k", ":", "-H", "h=\x1b[31m")
    shown = hutong("tail", "tailed", "--from=-3", "--max", "3")
    assert [line.split()[1:] for line in shown.splitlines()] == [
        [f"0:{number}", f"k{number}", "h=\\x1b[31m", f"v{number}"] for number in (9, 10, 11)
    ]


def test_a_group_continues_where_it_stopped(hutong: Hutong, lines: Path) -> None:
    hutong("produce", "grouped", str(lines))
    first = hutong("consume", "grouped", "--group", "readers", "--max", "5").splitlines()
    (described,) = hutong.rows("group", "describe", "readers")
    assert described["offsets"] == [
        {"topic": "grouped", "partition": 0, "committed": 5, "end": 12, "lag": 7, "member": None}
    ]
    assert "lag 7" in hutong("group", "describe", "readers")
    rest = hutong("consume", "grouped", "--group", "readers").splitlines()
    assert first + rest == lines.read_text().splitlines()
    assert hutong.rows("group", "list") == [{"group": "readers", "type": "classic", "state": "empty", "lag": 0}]
    hutong("produce", "grouped", str(lines))
    assert [row["lag"] for row in hutong.rows("group", "list")] == [12]
    hutong("topic", "delete", "grouped", "--yes")
    hutong("group", "list")  # what was committed for a topic that is gone has no end


def test_misspelt_names_are_told_with_the_nearest(hutong: Hutong, lines: Path) -> None:
    hutong("produce", "orders", str(lines))
    hutong("consume", "orders", "--group", "billing")
    for command in (["topic", "describe", "ordrs"], ["consume", "ordrs"], ["topic", "delete", "orders", "ordrs", "-y"]):
        hutong(*command, code=66)
        assert "There is no topic ordrs; did you mean orders?" in hutong.err
    assert [row["topic"] for row in hutong.rows("topic", "list")] == ["orders"], "none was deleted"
    hutong("group", "describe", "biling", code=66)
    assert "There is no group biling; did you mean billing?" in hutong.err
    for command in (["create", "new"], ["alter", "orders"]):
        hutong("topic", *command, "-c", "retenton.ms=1", code=76)
        assert "Unknown topic config name: retenton.ms; did you mean retention.ms?" in hutong.err
    hutong("topic", "alter", "orders", "-c", "completely.other=1", code=76)
    assert "did you mean" not in hutong.err
    hutong("produce", "oders", str(lines))
    assert "There is no topic oders yet; did you mean orders?" in hutong.err


def test_internal_topics_are_listed_and_described_where_they_are_asked_for(hutong: Hutong) -> None:
    assert hutong.rows("topic", "list") == []
    internal = {row["topic"] for row in hutong.rows("topic", "list", "--internal")}
    assert {"__hutong_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"} <= internal
    assert hutong.rows("topic", "describe", "__hutong_metadata")[0]["partitions"][0]["in_sync"] == [1]


def test_the_page_of_metrics_is_no_broker(node: Node, hutong: Hutong, lines: Path) -> None:
    hutong.bootstrap = metrics = node.process.fields["metrics"]
    for command in (["topic", "list"], ["produce", "t", str(lines)]):
        hutong(*command, code=69)
        assert f"{metrics} is an HTTP server, such as a node's page of metrics, and no broker" in hutong.err


def test_an_actor_is_set_suspended_and_resumed(hutong: Hutong) -> None:
    assert hutong.rows("actor", "list", "nightly") == [
        {"group": "nightly", "priority": 1, "quota": 0, "suspended": False, "expiry": 20.0}
    ]
    hutong("actor", "set", "nightly", "--priority", "3", "--expiry", "2.5", "--quota", "1000000")
    hutong("actor", "suspend", "nightly")
    assert "hutong actor resume nightly" in hutong.err
    assert {"group": "nightly", "priority": 3, "quota": 1_000_000, "suspended": True, "expiry": 2.5} in hutong.rows(
        "actor", "list", "nightly"
    )
    hutong("actor", "resume", "nightly")
    assert hutong.rows("actor", "list", "nightly")[0]["suspended"] is False


def test_what_an_actor_cannot_be_set_to_is_said(hutong: Hutong) -> None:
    hutong("actor", "set", "nightly", code=64)
    assert "name --priority, --quota or --expiry" in hutong.err
    hutong("actor", "set", "nightly", "--priority", "0", code=76)
    assert "hutong.actor.priority must be greater than or equal to 1" in hutong.err


def test_a_reset_is_shown_first_and_done_only_when_told(hutong: Hutong, lines: Path) -> None:
    hutong("produce", "resets", str(lines))
    hutong("consume", "resets", "--group", "resetting")
    expected = [{"topic": "resets", "partition": 0, "from": 12, "to": 8, "lag": 4}]
    assert hutong.rows("group", "reset", "resetting", "--topic", "resets", "--to=-4") == expected
    assert "Nothing was changed" in hutong.err
    assert hutong.rows("group", "describe", "resetting")[0]["offsets"][0]["committed"] == 12
    assert hutong.rows("group", "reset", "resetting", "--topic", "resets", "--to=-4", "--execute") == expected
    assert hutong("consume", "resets", "--group", "resetting").split() == lines.read_text().split()[-4:]


def test_a_deleted_group_is_gone(hutong: Hutong, lines: Path) -> None:
    hutong("produce", "deleting", str(lines))
    hutong("consume", "deleting", "--group", "doomed")
    hutong("group", "delete", "doomed", "--yes")
    hutong("group", "describe", "doomed", code=66)
    assert "There is no group doomed" in hutong.err
    hutong("group", "delete", "doomed", "--yes", code=66)
