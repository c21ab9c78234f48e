"""What the console of one node shows of the others, each a process: spans of a trace, and groups."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import ShareConsumer
from playwright.sync_api import Page, expect
from tests.compat.console.checks import violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.shop_program import TRACE
from tests.support.bridge import RawClient
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.timeout(300)]
GROUPS = 6  # so that most likely each node coordinates some
ANY_PORT = "127.0.0.1:0"
SETTINGS = {
    "console.listen": ANY_PORT,
    "console.tracing": "true",
    "tcp_bridge.listen": ANY_PORT,
    "bridge.permit_in": ".*",
    "bridge.permit_out": ".*",
}


class TracedCluster(Cluster):
    def field(self, number: int, name: str) -> str:
        """What the node has said at its start."""
        process = self.nodes[number].process
        assert process is not None
        return process.fields[name]

    def url(self, number: int) -> str:
        return f"http://{self.field(number, 'console')}"

    def receive_at(self, number: int, parent: str) -> None:
        """Have the node hand a message of the trace to a client of its bridge."""
        with RawClient(int(self.field(number, "tcp-bridge").rpartition(":")[2])) as client:
            address, headers = f"shop.of-{number}", {"traceparent": f"00-{TRACE}-{parent}-01"}
            client.send(type="register", address=address)
            client.must_be_alive()
            client.send(type="send", address=address, body={}, headers=headers)
            assert client.receive()["address"] == address

    def own_spans(self, number: int) -> Any:
        """Those that the node itself keeps, by its API."""
        with urllib.request.urlopen(f"{self.url(number)}/api/session", timeout=30) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        asked = urllib.request.Request(f"{self.url(number)}/api/trail/spans?trace={TRACE}", headers={"Cookie": cookie})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedCluster]:
    with TracedCluster(tmp_path_factory.mktemp("cluster"), 3, SETTINGS) as cluster:
        yield cluster


def test_share_groups_of_all_nodes_are_listed(open_page: OpenPage, cluster: TracedCluster) -> None:
    cluster.create_topic("orders", 1)
    names = [f"workers-{number}" for number in range(GROUPS)]
    with ExitStack() as stack:
        for name in names:
            consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
            stack.callback(consumer.close)
            consumer.subscribe(["orders"])
            consumer.poll(0.1)
        page = open_page("/groups", url=cluster.url(1))
        for name in names:
            expect(page.get_by_role("row").filter(has_text=name)).to_contain_text("share")
        expect(page.get_by_text("Some brokers did not answer")).to_have_count(0)
        keepers = {kept_by(page, name) for name in names}
        assert keepers <= {"kept by node 1", "kept by node 2, not this one", "kept by node 3, not this one"}
        assert len(keepers) > 1
        page.close()  # before the console that it asks


def kept_by(page: Page, group: str) -> str:
    """The note on the node that keeps the group, on its page with its member."""
    page.get_by_role("link", name=group, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(group)
    expect(page.locator(".member")).to_have_count(1)
    note = page.get_by_text("kept by node").inner_text()
    page.go_back()
    return note


def test_one_console_shows_the_spans_of_all_nodes(open_page: OpenPage, cluster: TracedCluster) -> None:
    cluster.receive_at(1, "00f067aa0ba902b7")
    told = cluster.own_spans(1)
    assert (told["node"], told["others"], told["is_traced"]) == (1, [2, 3], True)
    for number in (2, 3):
        cluster.receive_at(number, told["spans"][-1]["id"])
    page = open_page(f"/trail?trace={TRACE}", url=cluster.url(1))
    spans = page.locator(".hop-span")
    for number in (1, 2, 3):
        expect(spans.filter(has_text=f"shop.of-{number}").filter(has_text=f"node {number}").first).to_be_visible()
    expect(spans.filter(has_text="shop.of-3").first).to_contain_text("within")
    expect(page.get_by_text("Some spans are missing")).to_have_count(0)
    assert violations(page) == []
    # The client library asks the controller for the user's rights: while that hangs, nobody knows them.
    hanging = next(number for number in (2, 3) if number != cluster.controller())
    cluster.nodes[hanging].pause()
    page.reload()
    expect(page.get_by_text(f"Some spans are missing: node {hanging}")).to_be_visible()
    expect(spans.filter(has_text=f"shop.of-{5 - hanging}").first).to_contain_text(f"node {5 - hanging}")
    expect(spans.filter(has_text=f"shop.of-{hanging}")).to_have_count(0)
    page.close()  # before the console that it asks
