"""The bus of the node: its addresses, a tap, and messages from the page."""

import threading
from collections.abc import Iterator

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.bus.bus import EventBus
from hutong.bus.envelope.message import Message
from hutong.testing import EmbeddedNode

BRIDGED = {"tcp_bridge.listen": "127.0.0.1:0"}
SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}


@pytest.fixture(scope="module")
def bridged() -> Iterator[EmbeddedNode]:
    with node_with_console(BRIDGED) as node:
        yield node


@pytest.fixture
def client(bridged: EmbeddedNode) -> ConsoleClient:
    return ConsoleClient(bridged).begin()


@pytest.fixture(scope="module")
def bus(bridged: EmbeddedNode) -> EventBus:
    return bridged.bus


def test_a_node_without_a_bus_says_so(node: EmbeddedNode) -> None:
    client = ConsoleClient(node).begin()
    assert client.value("GET", "/api/bus")["has_bus"] is False
    answer = client.ask("POST", "/api/bus/messages", {"address": "a"})
    assert (answer.status, answer.value["error"]["message"]) == (
        404,
        "This console has no event bus: its node runs none.",
    )


def test_addresses_with_their_consumers(client: ConsoleClient, bus: EventBus) -> None:
    consumers = [bus.consumer("shop.orders", print), bus.consumer("shop.orders", print, local_only=True)]
    found = {each["address"]: each for each in client.value("GET", "/api/bus")["addresses"]}
    assert found["shop.orders"] == {
        "address": "shop.orders",
        "consumers": 2,
        "elsewhere": 0,
        "local_only": 1,
        "discarded_total": 0,
    }
    for consumer in consumers:
        consumer.unregister()


def test_a_request_is_answered_or_fails(client: ConsoleClient, bus: EventBus) -> None:
    def answer(message: Message) -> None:
        if message.headers.get("fail"):
            message.fail(7, "not today")
        else:
            message.reply({"got": message.body}, headers={"x": "y"})

    consumer = bus.consumer("echo", answer)
    given = {"address": "echo", "kind": "request", "body": {"a": [1, None]}}
    reply = client.value("POST", "/api/bus/messages", given)["reply"]
    assert (reply["body"], reply["headers"]) == ('{"got":{"a":[1,null]}}', [["x", "y"]])
    failed = client.value("POST", "/api/bus/messages", {**given, "headers": [["fail", "1"]]})["failure"]
    assert failed == {"type": "RECIPIENT_FAILURE", "code": 7, "message": "not today"}
    consumer.unregister()
    nobody = client.value("POST", "/api/bus/messages", given)["failure"]
    assert nobody["type"] == "NO_HANDLERS"


def test_sent_and_published(client: ConsoleClient, bus: EventBus) -> None:
    heard: list[object] = []
    both = threading.Event()

    def hear(message: Message) -> None:
        heard.append(message.body)
        if len(heard) == 3:
            both.set()

    consumers = [bus.consumer("news", hear) for _ in range(2)]
    assert "took_ms" in client.value("POST", "/api/bus/messages", {"address": "news", "body": "one"})
    client.value("POST", "/api/bus/messages", {"address": "news", "kind": "publish", "body": "all"})
    assert both.wait(30)
    assert sorted(map(str, heard)) == ["all", "all", "one"]
    for consumer in consumers:
        consumer.unregister()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"address": ""}, "an address has 1 to"),
        ({"address": "x" * 2_000}, "an address has 1 to"),
        ({"address": "a", "kind": "shout"}, "no kind of message"),
        ({"address": "a", "timeout_ms": 0}, "timeout_ms is a number"),
        ({"address": "a", "headers": [["n", "v"]] * 101}, "at most 100 headers"),
        ({"kind": "send"}, "not what is expected"),
        ({"address": "a", "headers": [["only"]]}, "not what is expected"),
    ],
)
def test_wrong_messages(client: ConsoleClient, body: object, sentence: str) -> None:
    answer = client.ask("POST", "/api/bus/messages", body)
    assert answer.status == 400
    assert sentence in answer.value["error"]["message"]


def test_a_tap_streams_what_passes(client: ConsoleClient, bus: EventBus) -> None:
    assert client.ask("GET", "/api/bus/tap").status == 400
    consumer = bus.consumer("tapped.one", lambda message: message.reply("ok"))
    stream = client.stream("/api/bus/tap?address=tapped.*")
    # The tap is open once its stream has begun: asked for until a message is in it.
    found: list[dict[str, object]] = []
    sender = threading.Thread(target=_send_until, args=(client, found))
    sender.start()
    name, data = next(stream)
    found.extend(data["messages"])
    sender.join()
    assert name == "messages"
    assert {each["direction"] for each in found} <= {"in", "out"}
    assert found[0]["body"] == '{"n":1}'
    stream.close()
    consumer.unregister()


def _send_until(client: ConsoleClient, found: list[dict[str, object]]) -> None:
    while not found:
        client.value("POST", "/api/bus/messages", {"address": "tapped.one", "kind": "request", "body": {"n": 1}})


def test_rights_are_those_of_the_cluster() -> None:
    with node_with_console({**SECURED, **BRIDGED}, ann="secret-of-ann", bob="secret-of-bob") as node:
        ann, bob = ConsoleClient(node).begin("ann"), ConsoleClient(node).begin("bob")
        assert ann.value("GET", "/api/bus")["has_bus"] is True
        for method, path, body in (
            ("GET", "/api/bus", None),
            ("GET", "/api/bus/tap?address=a", None),
            ("POST", "/api/bus/messages", {"address": "a"}),
            ("GET", "/api/services", None),
        ):
            answer = bob.ask(method, path, body)
            assert (answer.status, answer.value["error"]["code"]) == (403, 40301), path
