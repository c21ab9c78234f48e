"""Batches of pipelines on a record's way: those that have read it, for users that may see pipelines."""

import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from tests.support.http_json import JsonClient
from tests.unit.console.scene import ConsoleClient, node_with_console
from tests.unit.pipelines.declared.run.test_batches import document

from hutong.bus.durable.records import StoredRecord
from hutong.cli.node.pipeline_folders import PIPELINES_MAX, PROGRESS_BYTES_MAX, FolderPipelines
from hutong.console.limits import TRAIL_BATCHES_MAX
from hutong.console.outer_ports import OuterPorts
from hutong.console.trail.batches import TrailBatches
from hutong.console.trail.machine import Hop
from hutong.pipelines.declared.run.run_folder import RUNNING, PipelineFolder, RunFolder, RunRecord
from hutong.server.http.console_part import ConsolePart

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
PLACE = ("orders", 0, 7)
SINKS = '[sinks.out]\ntopic = "paid"\n[sinks.files]\nkind = "parquet"\npath = "hours"\n[sinks.odd]\ntopic = 7\n'


def a_run(state: Path, name: str, file: str, *documents: Any, run: str = "1") -> RunFolder:
    made = PipelineFolder(state / name).new_run(run)
    made.write(RunRecord(run, name, file, 1, 1, 400, RUNNING, "local[*]"))
    for each in documents:
        made.append_progress(each if isinstance(each, str) else json.dumps(each))
    return made


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pipelines that have read offset 7, one of another topic, and what nobody should have written there."""
    state = tmp_path_factory.mktemp("pipelines")
    (state / "copy.toml").write_text(SINKS)
    read, after = ({"orders": {"0": begin}} for begin in (5, 9))
    by_both = [document(3, read, after, query) for query in ("out", "files", "odd")]
    a_run(state, "copy", str(state / "copy.toml"), *by_both, document(4, after, {"orders": {"0": 12}}))
    a_run(state, "first", str(state / "first.py"), document(0, None, after), "{torn")
    a_run(state, "other", "", document(1, {"payments": {"0": 5}}, {"payments": {"0": 9}}))
    odd = ['{"orders": 1}', "[" * 50_000 + '"orders"', '"orders"', document(1, {"orders": 3}, {"orders": {"0": "9"}})]
    a_run(state, "odd", "/nowhere.toml", *odd)
    a_run(state, "Not A Name", "", document(1, read, after))
    return state


def test_batches_with_what_they_wrote_to(state: Path) -> None:
    rows, is_cut = FolderPipelines(state).batches([PLACE])
    told = [(row["pipeline"], row["query"], row["batch_id"], row["to_topic"], row["to_path"]) for row in rows]
    assert told == [
        ("copy", "out", 3, "paid", None),
        ("copy", "files", 3, None, "hours"),
        ("copy", "odd", 3, None, None),
        ("first", "out", 0, None, None),
    ]
    place = {"topic": "orders", "partition": 0, "offset": 7}
    assert [row["read"] for row in rows] == [
        [{**place, "is_certain": certain}] for certain in (True, True, True, False)
    ]
    assert not is_cut
    assert FolderPipelines(state / "nowhere").batches([PLACE]) == ([], False)


def test_a_file_that_would_have_to_be_run_is_not(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("raise SystemExit(9)")
    a_run(tmp_path, "p", str(tmp_path / "p.py"), document(1, {"orders": {"0": 5}}, {"orders": {"0": 9}}))
    (row,), _ = FolderPipelines(tmp_path).batches([PLACE])
    assert (row["to_topic"], row["to_path"]) == (None, None)


def test_older_runs_and_older_files_are_looked_at_within_the_bound(tmp_path: Path) -> None:
    def rows() -> tuple[list[int], bool]:
        found, is_cut = FolderPipelines(tmp_path).batches([PLACE])
        return [row["batch_id"] for row in found], is_cut

    read = [document(number, {"orders": {"0": 5}}, {"orders": {"0": 9}}) for number in range(3)]
    old = a_run(tmp_path, "p", "", read[0], run="1")
    old.progress.replace(old.path / "progress.1.jsonl")
    old.append_progress(json.dumps(read[1]))
    newest = a_run(tmp_path, "p", "", read[2], run="2")
    assert rows() == ([2, 1, 0], False)
    with newest.progress.open("a") as file:
        file.write("x" * PROGRESS_BYTES_MAX + "\n")
    assert rows() == ([], True)


def test_more_pipelines_than_are_looked_at(tmp_path: Path) -> None:
    for number in range(PIPELINES_MAX + 1):
        (tmp_path / f"p{number}" / "runs").mkdir(parents=True)
    assert FolderPipelines(tmp_path).batches([PLACE]) == ([], True)


class Told:
    """Pipelines that tell these batches, and remember what they were asked for."""

    def __init__(self, *batches: dict[str, Any]) -> None:
        self.told = list(batches)
        self.asked: list[list[tuple[str, int, int]]] = []

    def batches(self, places: Collection[tuple[str, int, int]]) -> tuple[list[dict[str, Any]], bool]:
        self.asked.append(list(places))
        return list(self.told), False


def hop(offset: int) -> Hop:
    return Hop(StoredRecord("orders", 0, offset, 0, None, b"", (), 0), "same key")


def test_all_places_of_a_trail_are_one_question() -> None:
    told = Told(*({"started_ms": number} for number in range(TRAIL_BATCHES_MAX + 1, 0, -1)))
    batches = TrailBatches(cast(Any, told))
    assert batches.tell() == []
    batches.add([hop(7)])
    batches.add([hop(9)])
    events = batches.tell()
    assert told.asked == [[("orders", 0, 7), ("orders", 0, 9)]]
    assert events[0] == b'event: batch\ndata: {"started_ms":1}\n\n'
    assert (len(events), batches.is_cut) == (TRAIL_BATCHES_MAX, True)
    assert batches.tell() == []


def trail(client: ConsoleClient) -> list[tuple[str, Any]]:
    return list(client.stream("/api/trail?key=k7&topics=orders"))


def fill(bootstrap: str, **properties: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **properties})
    for number in range(9):
        producer.produce("orders", f"v{number}", f"k{number}", partition=0)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def client(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    folder = tmp_path_factory.mktemp("node")
    words = ["serve", "--data-dir", str(folder), "--kafka", "127.0.0.1:0", "--console", "127.0.0.1:0", "--json"]
    command = [sys.executable, "-m", "hutong", *words, "--set", f"console.pipelines={state}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        fill(ready["kafka"])
        client = ConsoleClient.__new__(ConsoleClient)
        JsonClient.__init__(client, ready["console"])
        yield client.begin()
        process.terminate()


def test_the_batches_of_a_trail_come_before_its_end(client: ConsoleClient) -> None:
    names = [(name, data.get("is_ended")) for name, data in trail(client)]
    assert [name for name, _ in names].count("batch") == 4
    assert names[-1] == ("progress", True)
    assert {data["pipeline"] for name, data in trail(client) if name == "batch"} == {"copy", "first"}


def test_users_that_may_not_see_pipelines_see_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    told, made = Told({"started_ms": 1}), ConsolePart.__init__

    def with_pipelines(part: ConsolePart, *given: Any, **named: Any) -> None:
        made(part, *given, **named)
        part._outer = OuterPorts(cast(Any, told))

    monkeypatch.setattr(ConsolePart, "__init__", with_pipelines)
    with node_with_console(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        ann, bob = (ConsoleClient(node).begin(user) for user in ("ann", "bob"))
        credentials = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        fill(node.bootstrap, **credentials, **{"sasl.username": "ann", "sasl.password": "secret-of-ann"})
        acl = {"principal": "User:bob", "operation": "read", "resource": "topic", "name": "orders"}
        assert ann.ask("POST", "/api/security/acls", acl).status == 201
        assert [name for name, _ in trail(ann)].count("batch") == 1
        seen = [name for name, _ in trail(bob)]
        assert ("hop" in seen, "batch" in seen) == (True, False)
