from typing import Any

from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}


def first(client: ConsoleClient, path: str, name: str) -> Any:
    stream = client.stream(path)
    try:
        return next(data for kind, data in stream if kind == name)
    finally:
        stream.close()


def test_brokers_and_partitions_are_those_of_the_node(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("nodes-map", partitions=3)
    shown = client.value("GET", "/api/nodes")
    (broker,) = shown["brokers"]
    assert broker["address"] == node.bootstrap
    assert broker["is_controller"] is True
    assert broker["leaders"] == broker["replicas"] == shown["partitions"] >= 3
    assert shown["problems"] == []
    assert "nodes-map" in shown["topic_names"]
    found = client.value("GET", "/api/nodes/partitions?topic=nodes-map")["partitions"]
    assert [one["partition"] for one in found] == [0, 1, 2]
    assert all(one["replicas"] == one["in_sync"] == [one["leader"]] for one in found)


def test_a_topic_that_is_not_there_is_not_made(client: ConsoleClient) -> None:
    assert client.ask("GET", "/api/nodes/partitions?topic=nowhere").status == 404
    assert client.ask("GET", "/api/nodes/partitions").status == 400
    assert "nowhere" not in client.value("GET", "/api/nodes")["topic_names"]


def test_an_election_where_all_preferred_leaders_lead_does_nothing(client: ConsoleClient) -> None:
    assert client.value("POST", "/api/nodes/elect", {"topic": None}) == {"elected": 0, "failed": []}
    assert client.ask("POST", "/api/nodes/elect", {"topic": 5}).status == 400
    assert client.ask("POST", "/api/nodes/elect", {}, X_Hutong_Csrf="wrong").status == 403


def test_the_node_itself_is_shown_live(node: EmbeddedNode, client: ConsoleClient) -> None:
    own = client.value("GET", "/api/nodes/own")
    assert own["listeners"]["console"] in (node.console_url or "")
    assert own["open_files_max"] > own["open_files"] > 0
    node.produce("nodes-own", b"value")
    shown = first(client, "/api/nodes/own/events", "figures")
    assert shown["memory"]["resident_bytes"] > 0
    assert {one["name"] for one in shown["connections"]} >= {"console"}


def test_only_users_that_may_describe_the_cluster_see_the_node() -> None:
    with node_with_console(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        ann, bob = (ConsoleClient(node).begin(user) for user in ("ann", "bob"))
        assert ann.ask("GET", "/api/nodes/own").status == 200
        for path in ("/api/nodes/own", "/api/nodes/own/events", "/api/overview/events"):
            assert bob.ask("GET", path).status == 403
        shown = bob.value("GET", "/api/overview")
        assert (shown["has_node"], shown["may_see_node"]) == (True, False)
        assert shown["unseen"]


def test_a_stream_ends_with_its_session(node: EmbeddedNode) -> None:
    client = ConsoleClient(node).begin()
    stream = client.stream("/api/nodes/own/events")
    assert next(stream)[0] == "figures"
    assert client.ask("DELETE", "/api/session").status == 204
    assert len(list(stream)) <= 1, "it ends at its next round"
