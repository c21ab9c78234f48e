"""A real Prometheus server scrapes a node: it takes the page, and every query of the dashboard and of the alerts."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.targets import free_port
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until
from tests.unit.server.monitoring.test_watching_files import GRAFANA, queries_of

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = [
    pytest.mark.skipif(not PROMETHEUS or not PROMTOOL, reason="prometheus and promtool are not installed"),
    pytest.mark.skipif(not IS_HUTONG, reason="Apache Kafka has no page for Prometheus"),
]
RULES_TEST = Path(__file__).parent / "prometheus" / "alerts.test.yml"
DEADLINE_S = 30.0
BETWEEN_S = 0.1
CONFIGURATION = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: hutong
    static_configs: [{{targets: ["{target}"]}}]
"""
WORDS = {"$instance": ".*", "$topic": ".*", "$consumergroup": ".*", "$job": ".*", "$__rate_interval": "5s"}


class Server:
    """A running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; AssertionError for a refusal, OSError while it does not listen."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, query: str) -> float | None:
        """Of a query with one result; None where it has none."""
        found = self.ask("query", query=query)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def wait_for(self, query: str, value: float) -> None:
        until(lambda: self.value(query) == value, what=f"{query} == {value}", between_s=BETWEEN_S)

    def is_up(self) -> bool:
        try:
            return bool(self.ask("status/buildinfo"))
        except OSError:
            return False

    def rules(self) -> list[Any]:
        """All alerts, once they were evaluated."""
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] == "ok" for rule in rules) else []


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("watched"), "metrics.listen=127.0.0.1:0") as node:
        yield node


@pytest.fixture(scope="module")
def server(watched: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that has scraped the node."""
    folder = tmp_path_factory.mktemp("prometheus")
    target = watched.process.fields["metrics"]
    configuration = folder / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(rules=GRAFANA / "alerts.yml", target=target))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(PROMETHEUS),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        running = Server(address)
        until(running.is_up, what=f"Prometheus, {folder / 'log'}", between_s=BETWEEN_S)
        running.wait_for('up{job="hutong"}', 1)
        yield running
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(DEADLINE_S) == 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_it_scrapes_the_node_and_sees_lag(watched: Node, server: Server) -> None:
    topic, group = f"seen-{time.monotonic_ns()}", f"readers-{time.monotonic_ns()}"
    produce(watched.address, topic, 10)
    commit(watched.address, group, topic, 4)
    server.wait_for(f'kafka_topic_partition_current_offset{{topic="{topic}"}}', 10)
    server.wait_for(f'kafka_consumergroup_lag{{consumergroup="{group}",topic="{topic}",partition="0"}}', 6)
    seconds = server.value(f'kafka_consumergroup_lag_seconds{{consumergroup="{group}"}}')
    assert seconds is not None
    assert seconds >= 0
    (target,) = server.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_it_knows_what_each_metric_is(server: Server) -> None:
    told = server.ask("metadata")
    kinds = {name: entries[0]["type"] for name, entries in told.items()}
    assert kinds["kafka_consumergroup_lag"] == "gauge"
    assert kinds["hutong_produce_stage_seconds"] == "histogram"
    assert {kind for name, kind in kinds.items() if name.endswith("_total")} == {"counter"}


def test_it_takes_every_query_of_the_dashboard(server: Server) -> None:
    dashboard = json.loads((GRAFANA / "hutong.json").read_text())
    queries = [query for query in queries_of(dashboard["panels"]) if query]
    assert len(queries) > 50
    for query in queries:
        for word, meaning in WORDS.items():
            query = query.replace(word, meaning)
        server.ask("query", query=query)


def test_it_takes_the_alerts_and_none_of_them_fires(server: Server) -> None:
    rules = until(server.rules, what="alerts without a fault", between_s=BETWEEN_S)
    assert len(rules) > 10
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    assert firing <= {"HutongDiskNearlyFull"}, "the volume is this machine's"


def test_promtool_finds_no_fault_with_the_page(watched: Node) -> None:
    with urllib.request.urlopen(f"http://{watched.process.fields['metrics']}/metrics", timeout=DEADLINE_S) as response:
        page = response.read()
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_finds_no_fault_with_the_alerts_and_each_comes_when_it_should(tmp_path: Path) -> None:
    for path in (GRAFANA / "alerts.yml", RULES_TEST):
        shutil.copy(path, tmp_path)
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", RULES_TEST.name]):
        done = subprocess.run([str(PROMTOOL), *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
