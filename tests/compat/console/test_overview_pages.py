"""The overview in a browser: the node's health, remedies, charts that grow; a cluster looked at from outside."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage
from tests.compat.console.outside import console

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
HOSTILE = "<img src=x onerror=alert(1)>\u202e\u0000"
CLUSTER = {
    "cluster_id": "c",
    "controller": 1,
    "brokers": 1,
    "topics": 3,
    "partitions": 8,
    "leaderless": 0,
    "under_replicated": 0,
    "not_preferred": 0,
}
FIGURES = {
    "records_in_per_s": 1_234_567.8,
    "bytes_in_per_s": 2.5e9,
    "bytes_out_per_s": 0,
    "requests_per_s": 99_999,
    "safe_p99_s": 0.0123,
    "connections": 19_999,
    "processors_used": 1.75,
    "memory_bytes": 9.9e10,
    "topics": 1_000,
    "partitions": 9_000,
    "groups": 10_000,
    "volume_free_bytes": 5e9,
    "volume_size_bytes": 1e12,
    "up_ms": 8.64e7,
}


def finding(alert: str, severity: str, sentence: str, **facts: Any) -> dict[str, Any]:
    whole = {
        "remedy": "Raise `network.max_connections`.",
        "see": "/nodes/this",
        "since_ms": None,
        "is_alert": True,
        "more": 0,
    }
    return {"alert": alert, "severity": severity, "sentence": sentence, **whole, **facts}


TROUBLED = [
    finding("HutongPartitionGroupFailed", "critical", "Partition group days has failed."),
    finding("HutongConsumerLate", "warning", f"Group {HOSTILE} is 2 hours behind.", see="/groups/x"),
    finding("HutongConsumerLate", "warning", "Group other is 7 minutes behind.", see="/groups/y", more=95),
    finding("HutongLoopLate", "warning", "One in a hundred events waits 187 ms for the loop.", is_alert=False),
]


def stream_of(page: Page, findings: list[dict[str, Any]], tone: str, sentence: str) -> None:
    """Answer the stream of the overview with one round."""
    point = [1_800_000_000_000, 1_234_567.8, 2.5e9, 0]
    group = {"name": HOSTILE, "lag": 2**50, "lag_ms": 8e6, "read_per_s": 0, "members": 1}
    topic = {"name": HOSTILE, "records_in_per_s": 5, "bytes_in_per_s": 10, "bytes_out_per_s": 0}
    told = {
        "at_ms": point[0],
        "health": {"tone": tone, "sentence": sentence},
        "findings": findings,
        "rules": 30,
        "figures": FIGURES,
        "groups": [group],
        "topics": [topic],
        "point": point,
    }
    history = {"points": [[point[0] - 2_000 * number, 5, 10, None] for number in range(9, 0, -1)]}
    body = f"event: history\ndata: {json.dumps(history)}\n\nevent: figures\ndata: {json.dumps(told)}\n\n"
    page.route("**/api/overview/events", lambda route: route.fulfill(body=body, content_type="text/event-stream"))


def card(page: Page, label: str) -> Any:
    return page.locator(".card", has=page.get_by_text(label, exact=True)).locator("dd").first


def test_a_node_is_seen_live(open_page: OpenPage, node: EmbeddedNode) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator(".health")).to_contain_text("rules look at every sample")
    expect(card(page, "Connections")).not_to_have_text("0")
    expect(card(page, "Records in")).to_have_text("0/s")
    for _ in range(3):
        node.produce("orders.eu", b"value", b"value")
        expect(card(page, "Records in")).not_to_have_text("0/s")
    expect(page.get_by_role("table", name="Busiest topics")).to_contain_text("orders.eu")
    page.get_by_text("Show as a table").first.click()
    expect(page.get_by_role("table", name="Records in, a second")).to_be_visible()
    assert violations(page) == []


def test_what_is_wrong_has_a_remedy_and_a_page(open_page: OpenPage) -> None:
    page = open_page("/no/such/page")
    stream_of(page, TROUBLED, "bad", "One thing is wrong and needs you now.")
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.locator(".health-bad")).to_contain_text("One thing is wrong and needs you now.")
    wrong = page.get_by_role("region", name="What is wrong now, and what to do").locator("ol > li")
    expect(wrong).to_have_count(3)
    expect(wrong.nth(0)).to_contain_text("critical")
    expect(wrong.nth(1)).to_contain_text("⟨U+202E⟩␀ is 2 hours behind.")
    expect(wrong.nth(1)).to_contain_text("and 95 more like these")
    expect(wrong.nth(2)).to_contain_text("may pass")
    expect(wrong.nth(0).locator("code")).to_have_text("network.max_connections")
    assert violations(page) == []
    link = wrong.nth(0).get_by_role("link")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("This node")


@pytest.mark.parametrize("width", [320, 1280])
def test_large_figures_and_hostile_names_fit(open_page: OpenPage, width: int) -> None:
    page = open_page("/no/such/page", width=width)
    stream_of(page, TROUBLED, "warn", "It works, and 3 things are not as they should be.")
    page.evaluate("history.pushState(null, '', '/'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(card(page, "Bytes in")).to_have_text("2.3 GiB/s")
    assert sideways_px(page) == 0
    too_wide = page.locator(".card dd").evaluate_all(
        "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    )
    assert too_wide == []
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []


def test_a_user_without_the_right_sees_the_cluster(open_page: OpenPage) -> None:
    told = {
        "cluster": CLUSTER,
        "has_node": True,
        "may_see_node": False,
        "health": {"tone": "good", "sentence": "All is well."},
        "findings": [],
        "unseen": ["a", "b"],
    }
    page = open_page("/", overview=json.dumps(told))
    expect(page.locator(".health-good")).to_contain_text("All is well.")
    expect(card(page, "Partitions")).to_have_text("8")
    expect(page.locator(".note")).to_contain_text("Your user may not see the figures of this node")
    assert violations(page) == []


@pytest.fixture(scope="module")
def outside(node: EmbeddedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with console(node.bootstrap, tmp_path_factory.mktemp("home")) as url:
        yield url


def test_a_cluster_from_outside_says_what_cannot_be_seen(open_page: OpenPage, outside: str) -> None:
    page = open_page("/", url=outside)
    expect(page.locator(".health-good")).to_contain_text("All is well.")
    expect(card(page, "Brokers")).to_have_text("1")
    expect(page.locator(".note")).to_contain_text("Kafka's protocol tells nothing of latency")
    page.get_by_role("link", name="Nodes", exact=True).click()
    expect(page.get_by_role("table", name="Brokers")).to_contain_text("controller")
    expect(page.get_by_role("link", name="This node")).to_have_count(0)
    page.goto(f"{outside}/nodes/this")
    expect(page.locator(".empty")).to_contain_text("This console looks at the cluster from outside.")
