"""The nodes in a browser: brokers and replicas of a cluster, elections, the stages of a produce as a live picture."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat


def broker(number: int, **facts: Any) -> dict[str, Any]:
    whole = {"address": f"node-{number}.example:9092", "rack": "east", "is_controller": number == 1, "leaders": 3}
    return {"id": number, **whole, "preferred_leaders": 3, "replicas": 9, "behind": 0, **facts}


def place(partition: int, leader: int | None, replicas: list[int], in_sync: list[int]) -> dict[str, Any]:
    return {"topic": "orders.eu", "partition": partition, "leader": leader, "replicas": replicas, "in_sync": in_sync}


LACKING = [place(0, None, [3], []), place(1, 2, [1, 2, 3], [1, 2])]
CLUSTER = {
    "cluster_id": "c",
    "controller": 1,
    "brokers": [broker(1), broker(2, leaders=4), broker(3, address=None, rack=None, leaders=0, behind=9)],
    "topics": 1,
    "partitions": 2,
    "leaderless": 1,
    "under_replicated": 2,
    "not_preferred": 1,
    "topic_names": ["orders.eu", "users"],
    "problems": LACKING,
    "truncated": False,
}
PARTITIONS = json.dumps({"topic": "orders.eu", "partitions": [*LACKING, place(2, 1, [1, 2], [1, 2])]})


@pytest.mark.parametrize("width", [320, 1280])
def test_a_cluster_that_lacks_something(open_page: OpenPage, width: int) -> None:
    page = open_page("/nodes?topic=orders.eu", width=width, nodes=json.dumps(CLUSTER), nodes_partitions=PARTITIONS)
    brokers = page.get_by_role("table", name="Brokers")
    expect(brokers.get_by_role("row")).to_have_count(4)
    expect(brokers.get_by_role("row").nth(3)).to_contain_text("not there")
    lacking = page.get_by_role("table", name="Partitions that lack a leader or replicas")
    expect(lacking.get_by_role("row").nth(1)).to_contain_text("none")
    replicas = page.get_by_role("table", name="Replicas of orders.eu").get_by_role("row")
    expect(replicas.nth(0)).to_have_text("PartitionBroker 1Broker 2Broker 3In sync")
    expect(replicas.nth(2)).to_have_text("1in syncleaderbehind2 of 3")
    assert sideways_px(page) == 0
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []


def test_leaders_are_elected_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/nodes", nodes=json.dumps(CLUSTER))
    asked: list[Any] = []

    def elect(route: Any) -> None:
        asked.append(route.request.post_data_json)
        body = {"elected": 1, "failed": [{"topic": "orders.eu", "partition": 0, "error": "no replica is there"}]}
        route.fulfill(body=json.dumps(body), content_type="application/json")

    page.route("**/api/nodes/elect", elect)
    button = page.get_by_role("button", name="Elect preferred leaders")
    button.focus()
    page.keyboard.press("Enter")
    assert violations(page) == []
    act = page.get_by_role("dialog").get_by_role("button", name="Elect leaders")
    act.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="1 partition has the preferred leader.")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="no replica is there")).to_be_visible()
    assert asked == [{"topic": None}]


def test_a_topic_is_mapped_by_mouse(open_page: OpenPage) -> None:
    page = open_page("/nodes")
    page.get_by_role("combobox", name="Topic").fill("orders.eu")
    page.get_by_role("button", name="Show").click()
    replicas = page.get_by_role("table", name="Replicas of orders.eu").get_by_role("row")
    expect(replicas).to_have_count(7)
    expect(replicas.nth(1)).to_contain_text("leader")
    assert page.url.endswith("/nodes?topic=orders.eu")
    page.get_by_role("combobox", name="Topic").fill("<b>nowhere")
    page.get_by_role("combobox", name="Topic").press("Enter")
    expect(page.get_by_role("alert").last).to_contain_text("Invalid topic")
    page.go_back()


def test_the_stages_of_a_produce_are_drawn_while_records_come(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page("/nodes/this")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    picture = page.locator("svg.stages").first
    for _ in range(3):
        node.produce("orders.eu", b"value")
        expect(picture).to_contain_text("fsync")
    expect(picture).to_have_attribute("aria-label", re.compile("fsync: .*99 of 100 within"))
    expect(page.get_by_role("table", name="Requests by kind")).to_contain_text("Produce")
    expect(page.get_by_role("table", name="Connections by listener")).to_contain_text("console")
    expect(page.get_by_text(node.bootstrap)).to_be_visible()
    assert violations(page) == []
    assert violations(open_page("/nodes/this", theme="dark", width=320)) == []
