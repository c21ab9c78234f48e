"""Settings of brokers and of the node by the console's API."""

from tests.unit.console.scene import ConsoleClient

from hutong.testing import EmbeddedNode


def test_the_nodes_settings_have_their_meaning(client: ConsoleClient) -> None:
    found = {each["name"]: each for each in client.value("GET", "/api/settings/node")["settings"]}
    listen = found["console.listen"]
    assert (listen["is_default"], bool(listen["meaning"])) == (False, True)


def test_a_brokers_settings_have_their_sources(node: EmbeddedNode, client: ConsoleClient) -> None:
    (broker,) = client.value("GET", "/api/settings/brokers")["brokers"]
    assert f"{broker['host']}:{broker['port']}" == node.bootstrap
    found = client.value("GET", f"/api/settings/brokers/{broker['id']}")["settings"]
    assert len(found) > 10
    assert all(each["source"] != "unknown" for each in found)
    assert all(each["value"] is None for each in found if each["is_sensitive"])


def test_a_broker_that_is_not_there(client: ConsoleClient) -> None:
    assert client.ask("GET", "/api/settings/brokers/77").status >= 400
    assert client.ask("GET", "/api/settings/brokers/x").status == 404
