from tests.unit.console.scene import ConsoleClient

from hutong.testing import EmbeddedNode


def test_the_cluster_is_shown_by_its_metadata(client: ConsoleClient) -> None:
    shown = client.value("GET", "/api/overview")
    assert shown["cluster"]["brokers"] == 1
    assert shown["may_see_node"] is True
    assert shown["findings"] == shown["unseen"] == []


def test_figures_come_as_a_stream_to_all_browsers(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.produce("overview", b"value")
    streams = [client.stream("/api/overview/events"), ConsoleClient(node).begin().stream("/api/overview/events")]
    for stream in streams:
        assert next(stream)[0] == "history"
        kind, first = next(stream)
        assert kind == "figures"
        assert first["figures"]["connections"] > 0
        assert first["rules"] > 20
        _, second = next(stream)
        assert second["figures"]["bytes_in_per_s"] is not None
        assert second["point"][0] == second["at_ms"]
        stream.close()
