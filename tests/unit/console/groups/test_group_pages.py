"""Groups in the console: lists, lag, members, resets with their undo, and deletion, at a real node."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode


@pytest.fixture(autouse=True)
def topics(node: EmbeddedNode) -> None:
    if "orders" not in node.topics():
        node.create_topic("orders", partitions=2)
        for partition in (0, 1):
            for number in range(10):
                node.produce("orders", b"%d" % number, partition=partition)


def commit(node: EmbeddedNode, group: str, *offsets: int) -> None:
    with closing(Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})) as consumer:
        places = [TopicPartition("orders", partition, offset) for partition, offset in enumerate(offsets)]
        consumer.commit(offsets=places, asynchronous=False)


@contextmanager
def member(node: EmbeddedNode, group: str, protocol: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": group, "group.protocol": protocol}
    with closing(Consumer({**settings, "client.id": "reader", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.05)
        yield consumer


def audit(node: EmbeddedNode) -> list[str]:
    return [record.json()["change"] for record in node.records("__hutong_console_audit")]


def test_groups_are_listed_and_their_lag_is_asked_for_apart(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "listed", 4, 10)
    told = client.value("GET", "/api/groups")
    (found,) = [group for group in told["groups"] if group["name"] == "listed"]
    assert found == {"name": "listed", "state": "empty", "type": "classic", "is_simple": True}
    assert (told["truncated"], told["problems"], told["has_all_types"]) == (False, [], True)
    lags = client.value("POST", "/api/groups/lags", {"groups": ["listed", "nobody"]})["lags"]
    assert lags["listed"] == {"lag": 6, "members": 0, "topics": 1, "problem": None}
    assert lags["nobody"]["lag"] == 0
    assert client.ask("POST", "/api/groups/lags", {"groups": ["g"] * 51}).status == 400


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_has_its_members_and_what_they_read(node: EmbeddedNode, client: ConsoleClient, protocol: str) -> None:
    with member(node, f"read-{protocol}", protocol):
        told = client.value("GET", f"/api/groups/read-{protocol}")
        assert (told["state"], told["type"], told["coordinator"] is not None) == ("stable", protocol, True)
        (one,) = told["members"]
        assert (one["client_id"], one["assigned"]) == ("reader", {"orders": [0, 1]})
        assert [(each["partition"], each["member_id"]) for each in told["partitions"]] == [
            (0, one["member_id"]),
            (1, one["member_id"]),
        ]
        answer = client.ask("POST", f"/api/groups/read-{protocol}/resets", {"offsets": [offset(0, 0)]})
        assert (answer.status, answer.value["error"]["code"]) == (409, 40901)
        assert client.ask("DELETE", f"/api/groups/read-{protocol}").status == 409


def offset(partition: int, number: int) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "offset": number}


def test_a_reset_is_previewed_done_and_undone(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "reset me", 4, 7)
    path = "/api/groups/reset%20me"
    preview = client.value("POST", f"{path}/resets/preview", {"to": "earliest"})
    assert [(row["before"], row["after"]) for row in preview["rows"]] == [(4, 0), (7, 0)]
    assert (preview["changes"], preview["again"], preview["skipped"]) == (2, 11, 0)
    done = client.value("POST", f"{path}/resets", {"offsets": [offset(0, 0), offset(1, 99)]})
    assert [(row["after"], row["reason"]) for row in done["rows"]] == [(0, ""), (10, "the log ends at 10")]
    assert [each["committed"] for each in client.value("GET", path)["partitions"]] == [0, 10]
    assert client.value("GET", f"{path}/resets")["resets"] == [{"number": done["undo"], "partitions": 2}]
    assert ConsoleClient(node).begin().ask("POST", f"{path}/resets/{done['undo']}/undo", {}).status == 404
    assert client.value("POST", f"{path}/resets/{done['undo']}/undo", {}) == {"restored": 2, "left": 0}
    assert [each["committed"] for each in client.value("GET", path)["partitions"]] == [4, 7]
    assert audit(node)[-2:] == ["group.reset", "group.undo_reset"]


def test_an_undo_asks_where_the_group_has_gone_on(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "moved", 4, 7)
    done = client.value("POST", "/api/groups/moved/resets", {"offsets": [offset(0, 0)]})
    commit(node, "moved", 2, 7)
    path = f"/api/groups/moved/resets/{done['undo']}/undo"
    answer = client.ask("POST", path, {})
    assert (answer.status, answer.value["error"]["code"]) == (409, 40902)
    assert client.value("POST", path, {"even_if_moved": True}) == {"restored": 1, "left": 0}


def test_one_partition_alone_and_other_beginnings(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "one", 4, 7)
    commit(node, "another", 6)

    def rows(**body: object) -> list[tuple[int, int | None]]:
        told = client.value("POST", "/api/groups/one/resets/preview", body)
        return [(row["partition"], row["after"]) for row in told["rows"]]

    assert rows(to="offset", value=3, topics=["orders"], partition=1) == [(1, 3)]
    assert rows(to="shift", value=-2) == [(0, 2), (1, 5)]
    assert rows(to="group", group="another") == [(0, 6), (1, None)]
    assert rows(to="time", value=0) == [(0, 0), (1, 0)]
    assert rows(to="time", value=2**42) == [(0, 10), (1, 10)]
    assert rows(to="latest", topics=["orders"]) == [(0, 10), (1, 10)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"to": "yesterday"}, 400),
        ({"to": "offset", "value": 2**60}, 400),
        ({"to": "group"}, 400),
        ({"to": "latest", "partition": 1}, 400),
        ({"to": "latest", "topics": ["no-such"]}, 404),
        ([], 400),
    ],
)
def test_a_wrong_preview_is_refused(client: ConsoleClient, body: object, status: int) -> None:
    assert client.ask("POST", "/api/groups/any/resets/preview", body).status == status


@pytest.mark.parametrize("offsets", [[], [{"topic": "orders", "partition": 9, "offset": 0}]])
def test_a_wrong_reset_is_refused(node: EmbeddedNode, client: ConsoleClient, offsets: list[object]) -> None:
    assert client.ask("POST", "/api/groups/any/resets", {"offsets": offsets}).status in (400, 404)
    assert "no-such" not in node.topics()


def test_a_group_is_deleted_and_a_strange_one_is_not_there(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "gone", 1)
    assert client.ask("DELETE", "/api/groups/gone").status == 204
    assert client.ask("GET", "/api/groups/gone").status == 404
    assert audit(node)[-1] == "group.delete"
    assert client.ask("GET", "/api/groups/a%00b").status == 400
    assert client.ask("GET", "/api/groups/" + "x" * 2_000).status == 400


def test_lag_comes_as_a_stream(node: EmbeddedNode, client: ConsoleClient) -> None:
    commit(node, "streamed", 4, 7)
    with closing(client.stream("/api/groups/streamed/lag")) as stream:
        name, first = next(stream)
        assert (name, [each["lag"] for each in first["samples"]]) == ("lag", [9])
        node.produce("orders", b"more", partition=0)
        later = next(stream)[1]
        assert [each["lag"] for each in later["samples"]] == [10]
        assert later["catch_up_s"] is None
    commit(node, "streamed", 5, 7)
    with closing(client.stream("/api/groups/streamed/lag")) as stream:
        assert len(next(stream)[1]["samples"]) >= 2, "the page finds what was seen before"


def test_what_the_brokers_forbid_is_refused() -> None:
    settings = {"kafka.protocol": "SASL_PLAINTEXT", "sasl.allow_without_tls": "true", "security.authorize": "true"}
    with node_with_console(settings, ann="secret-of-ann") as node:
        client = ConsoleClient(node).begin("ann")
        told = client.value("GET", "/api/groups")
        assert (told["groups"], told["has_all_types"]) == ([], False)
        for method, path, body in (
            ("GET", "/api/groups/g", None),
            ("DELETE", "/api/groups/g", None),
            ("POST", "/api/groups/g/resets/preview", {"to": "earliest"}),
            ("GET", "/api/groups/g/lag", None),
        ):
            assert client.ask(method, path, body).status == 403, path
