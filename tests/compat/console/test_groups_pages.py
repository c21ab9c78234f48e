"""Groups in a browser: found among ten thousand, looked at, reset with a preview and an undo, by keyboard and mouse."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, ShareConsumer, TopicPartition
from playwright.sync_api import Locator, Page, expect
from tests.compat.console.checks import sideways_px, violations, wait_until_shown
from tests.compat.console.conftest import OpenPage
from tests.support.confluent import leave, producer, send
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
NOTHING = "\u2013"  # a figure that is not known
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "a\u0000b\u001b[2J",
    "\u202egnp.exe",
    "'\"><script>alert(1)</script>",
    "../x",
]


def commit(node: EmbeddedNode, group: str, *offsets: int) -> None:
    with closing(Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})) as consumer:
        places = [TopicPartition("orders.eu", partition, offset) for partition, offset in enumerate(offsets)]
        consumer.commit(offsets=places, asynchronous=False)


@pytest.fixture
def members(node: EmbeddedNode) -> Iterator[list[Consumer]]:
    """Two members of the group `readers`, which have committed nothing yet, and do not by themselves."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "readers", "enable.auto.commit": False}
    found = [Consumer({**settings, "client.id": f"reader-{number}"}) for number in range(2)]
    for consumer in found:
        consumer.subscribe(["orders.eu"])
    while not all(len(consumer.assignment()) == 3 for consumer in found):
        for consumer in found:
            consumer.poll(0.1)
    yield found
    for consumer in found:
        leave(consumer)


def committed(page: Page) -> Locator:
    """The column of the offsets' table."""
    return page.get_by_role("region", name="Offsets by partition").locator("tbody tr td:nth-child(3)")


def test_a_group_is_found_and_reset_by_keyboard(open_page: OpenPage, node: EmbeddedNode) -> None:
    commit(node, "by.keyboard", 10, 20, 30)
    page = open_page("/groups")
    page.keyboard.press("/")
    page.keyboard.type("by.key")
    link = page.get_by_role("link", name="by.keyboard")
    expect(link).to_be_visible()
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("by.keyboard")
    wait_until_shown(page)
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Go to").focus()
    page.keyboard.type("the end")
    dialog.get_by_label("Topics").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Preview reset")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("region", name="Preview by partition")).to_contain_text("skipped")
    dialog.get_by_role("button", name="Reset 3 offsets").focus()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="The reset is undone")).to_be_visible()
    expect(committed(page)).to_have_text(["10", "20", "30"])


def test_a_group_is_reset_by_mouse_and_one_partition_alone(open_page: OpenPage, node: EmbeddedNode) -> None:
    commit(node, "by.mouse", 10, 20)
    page = open_page("/groups/by.mouse")
    wait_until_shown(page)
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Go to").select_option("shift")
    dialog.get_by_label("Records").fill("-15")
    dialog.get_by_role("button", name="Preview reset").click()
    expect(dialog).to_contain_text("25 records would be read again.")
    expect(dialog).to_contain_text("the log begins at 0")
    assert violations(page) == []
    dialog.get_by_role("button", name="Reset 2 offsets").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Set the offset of orders.eu, partition 1").or_(
        page.get_by_title("Set the offset of orders.eu, partition 1")
    ).first.click()
    dialog.get_by_label("Offset").fill("7")
    dialog.get_by_role("button", name="Preview reset").click()
    dialog.get_by_role("button", name="Reset 1 offset").click()
    expect(dialog).to_be_hidden()
    expect(committed(page)).to_have_text(["0", "7"])


def test_members_are_drawn_and_keep_a_reset_away(
    open_page: OpenPage, members: list[Consumer], node: EmbeddedNode
) -> None:
    commit_by_member(members[0])
    page = open_page("/groups/readers")
    wait_until_shown(page)
    expect(page.locator(".member")).to_have_count(2)
    expect(page.locator(".member .partition-field")).to_have_count(6)
    expect(page.locator("svg.chart-lines")).to_have_attribute(
        "aria-label", "Lag, records. Lag: 0 at the end.", timeout=20_000
    )
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The group has 2 members.")
    dialog.get_by_role("button", name="Preview reset").click()
    dialog.get_by_role("button", name="Reset 1 offset").click()
    expect(dialog.get_by_role("alert").filter(has_text="Stop its consumers")).to_be_visible()


def commit_by_member(member: Consumer) -> None:
    (place, *_) = member.assignment()
    _, end = member.get_watermark_offsets(place)
    member.commit(offsets=[TopicPartition(place.topic, place.partition, end)], asynchronous=False)


def test_a_group_is_deleted_with_its_name_typed(open_page: OpenPage, node: EmbeddedNode) -> None:
    commit(node, "to.delete", 1)
    page = open_page("/groups/to.delete")
    wait_until_shown(page)
    page.get_by_role("button", name="Delete group").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type to.delete to confirm").fill("to.delete")
    dialog.get_by_role("button", name="Delete group").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    expect(page.get_by_role("link", name="to.delete")).to_have_count(0)


def test_a_share_group_has_its_members_and_lag(open_page: OpenPage, node: EmbeddedNode) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "workers", "client.id": "worker-1"}
    with closing(ShareConsumer(settings)) as consumer:
        consumer.subscribe(["orders.eu"])

        def is_stable() -> bool:
            consumer.poll(0.1)
            shown = open_group.inner_text() if open_group.count() else ""
            return "stable" in shown

        page = open_page("/groups?filter=workers")
        open_group = page.get_by_role("row").filter(has_text="workers")
        until(is_stable, what="a member of the share group", between_s=0.5)
        expect(open_group).to_contain_text("share")
        expect(page.get_by_text("Members and lag of share and streams groups are on their own pages.")).to_be_visible()
        assert violations(page) == []
        open_group.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("workers")
        offsets = page.get_by_role("region", name="Offsets by partition").locator("tbody tr")

        def has_begun() -> bool:
            consumer.poll(0.1)
            return offsets.count() == 6 and offsets.filter(has_text=NOTHING).count() == 0

        until(has_begun, what="all partitions of the share group", between_s=0.5)
        send(producer(node.bootstrap), "orders.eu", [b"to do"] * 3, partition=2)
        expect(offsets.nth(2).locator("td").last).to_have_text("3")
        expect(page.locator(".member")).to_contain_text("worker-1")
        expect(page.locator(".member .partition-field")).to_have_count(6)
        expect(page.locator("svg.chart-lines")).to_have_attribute("aria-label", "Lag, records. Lag: 3 at the end.")
        expect(page.get_by_role("button", name="Reset offsets")).to_have_count(0)
        expect(page.get_by_text("kafka-share-groups.sh")).to_be_visible()
        assert violations(page) == []


def test_ten_thousand_groups_ask_for_the_lag_of_those_in_sight(open_page: OpenPage) -> None:
    groups = [
        {"name": f"group-{number:05}", "state": "stable", "type": "consumer", "is_simple": False}
        for number in range(10_000)
    ]
    told = json.dumps({"groups": groups, "truncated": False, "problems": []})
    page = open_page("/no/such/page", groups=told)
    asked: list[list[str]] = []
    page.on(
        "request",
        lambda request: (
            asked.append(json.loads(request.post_data or "{}").get("groups", [])) if "/lags" in request.url else None
        ),
    )
    with page.expect_response("**/api/groups/lags"):
        page.get_by_role("link", name="Groups", exact=True).click()
    expect(page.get_by_text("10,000 groups", exact=True)).to_be_visible()
    assert 0 < sum(map(len, asked)) <= 100
    assert all(len(batch) <= 50 for batch in asked)


def test_hostile_names_are_shown_and_nothing_runs(open_page: OpenPage) -> None:
    groups = [{"name": name, "state": "stable", "type": "classic", "is_simple": False} for name in HOSTILE]
    page = open_page("/groups", groups=json.dumps({"groups": groups, "truncated": False, "problems": ["<b>x</b>"]}))
    wait_until_shown(page)
    expect(page.get_by_role("row")).to_have_count(len(HOSTILE) + 1)
    assert sideways_px(page) == 0
    assert violations(page) == []
