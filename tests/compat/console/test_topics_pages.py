"""Topics in a browser: made, found, changed and deleted, by keyboard and by mouse; names that are not harmless."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage

pytestmark = pytest.mark.compat
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "a\u0000b\u001b[2J",
    "\u202egnp.exe",
    "x" * 249,
    "'\"><script>alert(1)</script>",
    "../../etc",
]


def topic(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": 3,
        "replication": 1,
        "under_replicated": 0,
        "without_leader": 0,
        "is_internal": False,
        "size_bytes": 10,
        "records": 5,
        "records_per_s": 0.0,
        "skew": 1.0,
        **facts,
    }


def told(*topics: dict[str, Any]) -> str:
    return json.dumps({"topics": topics, "truncated": False})


def heading(page: Page) -> Any:
    return page.get_by_role("heading", level=1)


def test_a_topic_is_made_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.keyboard.press("n")
    page.keyboard.type("by.keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("by.keyboard")
    expect(page.get_by_role("row")).to_have_count(4)
    expect(page.get_by_role("status").filter(has_text="Topic by.keyboard is there.")).to_be_visible()


def test_a_topic_is_made_and_deleted_by_mouse(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    assert violations(page) == []
    dialog.get_by_label("Name").fill("by.mouse")
    dialog.get_by_label("Old records").select_option("compact")
    dialog.get_by_role("button", name="Create topic").click()
    expect(heading(page)).to_have_text("by.mouse")
    page.get_by_role("button", name="Delete topic").click()
    act = dialog.get_by_role("button", name="Delete topic")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type by.mouse to confirm").fill("by.mous")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type by.mouse to confirm").press("e")
    act.click()
    expect(heading(page)).to_have_text("Topics")
    expect(page.get_by_role("link", name="orders.eu")).to_be_visible()
    expect(page.get_by_role("link", name="by.mouse")).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("", "Name is needed."), ("a b", "Use letters"), ("..", "not . or .."), ("n" * 250, "at most 249")],
)
def test_a_wrong_name_is_told_at_its_field(open_page: OpenPage, name: str, sentence: str) -> None:
    page = open_page("/topics")
    page.keyboard.press("n")
    field = page.get_by_role("dialog").get_by_label("Name")
    field.fill(name)
    field.press("Enter")
    expect(page.get_by_role("dialog").locator(".field-error").first).to_contain_text(sentence)
    expect(field).to_be_focused()


def test_a_refusal_of_the_broker_is_shown_where_it_was_asked(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.keyboard.press("n")
    page.keyboard.type("users")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("exists")
    expect(dialog.get_by_label("Name")).to_have_value("users")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_topics_are_found_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/topics")
    expect(page.get_by_role("link", name="orders.eu")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("ORDERS")
    expect(page.get_by_role("row")).to_have_count(2)
    assert page.url.endswith("?filter=ORDERS")
    page.reload()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="orders.eu").focus()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("orders.eu")
    expect(heading(page)).to_be_focused()


def test_rows_are_sorted_by_a_column_and_walked_by_arrows(open_page: OpenPage) -> None:
    page = open_page("/topics", topics=told(topic("b", records=1), topic("a", records=3), topic("c", records=2)))
    names = page.locator("tbody a")
    expect(names).to_have_text(["a", "b", "c"])
    page.get_by_role("button", name="Records").click()
    expect(names).to_have_text(["a", "c", "b"])
    expect(page.get_by_role("columnheader", name="Records")).to_have_attribute("aria-sort", "descending")
    names.first.focus()
    for key, name in (("ArrowDown", "c"), ("End", "b"), ("ArrowUp", "c"), ("Home", "a"), ("ArrowUp", "a")):
        page.keyboard.press(key)
        expect(page.locator(":focus")).to_have_text(name)


def test_a_read_only_console_offers_no_change(open_page: OpenPage) -> None:
    session = {"user": None, "needs_login": False, "csrf": "x", "read_only": True, "has_node": True}
    page = open_page("/topics", session=json.dumps(session), topics=told(topic("a")))
    expect(page.get_by_role("link", name="a", exact=True)).to_be_visible()
    expect(page.get_by_text("Read only")).to_be_visible()
    expect(page.get_by_role("button", name="Create topic")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_ten_thousand_topics_draw_those_in_sight(open_page: OpenPage) -> None:
    page = open_page("/topics", topics=told(*(topic(f"t{number}") for number in range(10_000))))
    expect(page.get_by_text("10,000 topics", exact=True)).to_be_visible()
    assert page.locator("tbody tr").count() < 100
    expect(page.locator("table")).to_have_attribute("aria-rowcount", "10001")
    page.locator("tbody a").first.focus()
    page.keyboard.press("End")
    expect(page.locator(":focus")).to_have_text("t9999")
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    expect(page.locator(":focus")).to_have_text("t0")
    page.locator(".table-scroll").evaluate("scroll => scroll.scrollTop = scroll.scrollHeight / 2")
    expect(page.get_by_role("link", name="t5000", exact=True)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("777")
    expect(page.get_by_text("19 of 10,000 topics")).to_be_visible()
    assert violations(page) == []


def test_partitions_are_added(open_page: OpenPage) -> None:
    page = open_page("/topics/empty")
    page.get_by_role("button", name="Add partitions").click()
    field = page.get_by_role("dialog").get_by_label("Partitions after the change")
    expect(field).to_have_value("2")
    field.fill("1")
    field.press("Enter")
    expect(page.get_by_role("dialog").locator(".field-error")).to_have_text("Give 2 or more.")
    field.fill("4")
    field.press("Enter")
    expect(page.get_by_role("row")).to_have_count(5)


def test_a_setting_is_changed_and_reset(open_page: OpenPage) -> None:
    page = open_page("/topics/users/settings")
    row = page.locator("tr[data-key='retention.ms']")
    page.get_by_role("button", name="Edit retention.ms", exact=True).click()
    field = page.get_by_role("dialog").get_by_label("Value")
    field.fill("soon")
    field.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    field.fill("3600000")
    field.press("Enter")
    expect(row).to_contain_text("1 h")
    expect(row).to_contain_text("topic")
    row.get_by_role("button", name="Reset").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(row.get_by_role("button", name="Reset")).to_have_count(0)


@pytest.mark.parametrize("width", [320, 1280])
def test_hostile_names_are_text(open_page: OpenPage, width: int) -> None:
    page = open_page("/topics", width=width, topics=told(*(topic(name) for name in HOSTILE)))
    names = page.locator("tbody a")
    expect(names).to_have_count(len(HOSTILE))
    shown = names.all_text_contents()
    assert "<img src=x onerror=alert(1)>" in shown
    assert "a␀b␛[2J" in shown
    assert "⟨U+202E⟩gnp.exe" in shown
    assert sideways_px(page) <= 0
    assert page.locator("main img, main script").count() == 0
    names.filter(has_text="../../etc").click()
    expect(heading(page)).to_have_text("../../etc")
    assert page.url.endswith("/topics/..%2F..%2Fetc/messages")
