"""Moves of replicas and drains in a browser, in front of a real cluster of three nodes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.outside import console

from hutong.testing import EmbeddedCluster

pytestmark = pytest.mark.compat
HOSTILE = '<img src=x onerror="alert(1)">\u202e'


@pytest.fixture(scope="module", autouse=True)  # before the browser, whose loop runs on this thread
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"cluster.replicas": "2", "cluster.slots": "1", "cluster.coordinators": "1"}
    with EmbeddedCluster(settings=settings) as cluster:
        cluster.wait_until_in_sync()
        cluster.create_topic("orders", partitions=3)
        cluster.create_topic("users")
        with console(cluster.bootstrap, tmp_path_factory.mktemp("home")) as address:
            yield address


def dialog(page: Page) -> Any:
    return page.get_by_role("dialog")


def free_place(page: Page) -> str:
    """The replicas of the first partition of `orders`, with the broker that is none of them in the first's place."""
    page.get_by_role("combobox", name="Topic").fill("orders")
    page.get_by_role("button", name="Show").click()
    row = page.get_by_role("table", name="Replicas of orders").get_by_role("row").nth(1)
    expect(row).to_contain_text("leader")
    shown = page.request.get(page.url.split("/nodes")[0] + "/api/nodes/partitions?topic=orders").json()
    now = shown["partitions"][0]["replicas"]
    (free,) = {1, 2, 3} - {*now}
    return f"{now[1]}, {free}"


def test_a_topic_is_moved_by_keyboard(open_page: OpenPage, url: str) -> None:
    page = open_page("/nodes", url=url)
    wanted = free_place(page)
    page.get_by_role("button", name="Move replicas").focus()
    page.keyboard.press("Enter")
    expect(dialog(page)).to_be_visible()
    assert violations(page) == []
    page.keyboard.type("orders")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type(wanted)
    page.keyboard.press("Enter")
    preview = dialog(page).get_by_role("table", name="Preview").get_by_role("row")
    expect(preview).to_have_count(2)
    expect(preview.nth(1)).to_contain_text(wanted)
    expect(dialog(page)).to_contain_text("along")
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    act = dialog(page).get_by_role("button", name="Move ")
    act.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="1 move has begun.")).to_be_visible()
    expect(page.get_by_text("Nothing is on its way.")).to_be_visible()
    page.get_by_role("button", name="Show").click()
    for broker in wanted.split(", "):
        replicas = page.get_by_role("table", name="Replicas of orders")
        expect(replicas.get_by_role("columnheader", name=f"Broker {broker}")).to_be_visible()


def test_a_node_is_drained_by_mouse(open_page: OpenPage, url: str) -> None:
    page = open_page("/nodes", url=url)
    page.get_by_role("button", name="Drain", exact=True).last.click()
    dialog(page).get_by_role("button", name="Preview drain").click()
    act = dialog(page).get_by_role("button", name="Drain", exact=True)
    expect(act).to_be_disabled()
    assert violations(page) == []
    dialog(page).get_by_role("textbox").fill("node 2")
    expect(act).to_be_disabled()
    dialog(page).get_by_role("textbox").fill("node 3")
    act.click()
    third = page.get_by_role("table", name="Brokers").get_by_role("row").nth(3)
    expect(third).to_contain_text("drained")
    page.emulate_media(color_scheme="dark")
    assert violations(page) == []
    third.get_by_role("button", name="Undrain").click()
    dialog(page).get_by_role("button", name="Undrain").click()
    expect(third).not_to_contain_text("drained")


def move(name: str, **facts: Any) -> dict[str, Any]:
    whole = {"partitions": 9, "topics": [HOSTILE], "more_topics": 2, "before": [1, 2], "target": [2, 3]}
    return {"name": name, "group": name, **whole, "copied_bytes": 1_000, "whole_bytes": 4_000, **facts}


MOVING = {"can_move": True, "why_not": None, "kind": "hutong", "truncated": True, "drained": [2]}


@pytest.mark.parametrize("width", [320, 1280])
def test_moves_under_way_with_hostile_names(open_page: OpenPage, url: str, width: int) -> None:
    moves = [move("days"), move(HOSTILE, before=None, copied_bytes=None)]
    page = open_page("/nodes", url=url, width=width, nodes_moves=json.dumps({**MOVING, "moves": moves}))
    listed = page.get_by_role("table", name="Moves under way").get_by_role("row")
    expect(listed).to_have_count(3)
    expect(listed.nth(1)).to_contain_text("of 3.9 KiB")
    expect(listed.nth(2)).to_contain_text("<img src=x")
    assert sideways_px(page) == 0
    assert violations(page) == []
    listed.nth(1).get_by_role("button", name="Take back").click()
    asked: list[Any] = []

    def taken_back(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(status=204)

    page.route("**/api/nodes/moves/take-back", taken_back)
    dialog(page).get_by_role("button", name="Take back").click()
    expect(page.get_by_role("status").filter(has_text="is taken back")).to_be_visible()
    assert asked == [{"group": "days"}]


def test_a_console_that_cannot_move_says_why(open_page: OpenPage, url: str) -> None:
    told = {
        "can_move": False,
        "why_not": "You need ALTER.",
        "kind": None,
        "moves": [],
        "truncated": False,
        "drained": [],
    }
    page = open_page("/nodes", url=url, nodes_moves=json.dumps(told))
    expect(page.get_by_text("You need ALTER.")).to_be_visible()
    expect(page.get_by_role("button", name="Move replicas")).to_have_count(0)
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)
    expect(page.get_by_text("hutong cluster drain NODE")).to_be_visible()
