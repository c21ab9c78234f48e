"""The console in front of Apache Kafka: what does not need a node of ours works there, too."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import expect
from tests.compat.console.checks import wait_until_shown
from tests.compat.console.conftest import OpenPage
from tests.support.confluent import producer, send
from tests.support.http_json import JsonClient
from tests.support.kafka_peer import running_kafka

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(tmp_path_factory.mktemp("kafka") / "log") as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def console(kafka: str) -> Iterator[str]:
    command = [sys.executable, "-m", "hutong", "console", "--bootstrap", kafka, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield "http://" + line.split("console=")[1].split()[0]
        process.terminate()
        assert process.wait(30) == 0, "SIGTERM ends it cleanly"


@pytest.fixture(scope="module")
def ask(console: str) -> Any:
    client = JsonClient(console.removeprefix("http://"))
    session = client.call("GET", "/api/session")
    headers = {"Cookie": session.headers["set-cookie"].partition(";")[0], "X_Hutong_Csrf": session.value["csrf"]}

    def call(method: str, path: str, body: Any = None) -> Any:
        answer = client.call(method, path, body, **headers)
        assert answer.status < 300, (path, answer.body)
        return answer.value if answer.body else None

    return call


@pytest.fixture(scope="module", autouse=True)
def filled(kafka: str, ask: Any) -> None:
    ask("POST", "/api/topics", {"name": "orders", "partitions": 3, "replication": 1})
    send(producer(kafka), "orders", [b'{"order": %d}' % number for number in range(30)], key=b"one")
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    for _ in range(10):
        assert consumer.poll(60) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def test_topics_with_sizes(ask: Any) -> None:
    (found,) = [each for each in ask("GET", "/api/topics?with_sizes=true")["topics"] if each["name"] == "orders"]
    assert (found["partitions"], found["records"]) == (3, 30)


def test_the_facts_of_a_node_are_not_there(ask: Any) -> None:
    assert ask("GET", "/api/bus")["has_bus"] is False
    assert ask("GET", "/api/services")["has_services"] is False


def test_moves_go_by_kafkas_own_requests(ask: Any) -> None:
    told = ask("GET", "/api/nodes/moves")
    assert (told["can_move"], told["kind"], told["moves"]) == (True, "kafka", [])
    (broker,) = (each["id"] for each in ask("GET", "/api/nodes")["brokers"])
    assert ask("POST", "/api/nodes/moves/preview", {"topic": "orders", "replicas": [broker]})["steps"] == []
    drain = ask("POST", f"/api/nodes/{broker}/drain/preview", {"what": "replicas"})
    assert (drain["kind"], drain["step_count"], drain["staying_count"] >= 3) == ("kafka", 0, True)


def test_a_change_is_audited(ask: Any) -> None:
    page = ask("GET", "/api/topics/__hutong_console_audit/messages")
    assert "topic.create" in str(page["records"])


def test_pages_in_a_browser(open_page: OpenPage, console: str) -> None:
    page = open_page("/topics", url=console)
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    page.goto(f"{console}/topics/orders/messages")
    expect(page.get_by_text('"order": 29').first).to_be_visible()
    for path in (
        "/",
        "/groups",
        "/groups/billing",
        "/dead-letters",
        "/security",
        "/settings",
        "/nodes",
        "/trail?key=one",
    ):
        page.goto(console + path)
        wait_until_shown(page)
        expect(page.get_by_text("The page met a fault of its own")).to_have_count(0)
