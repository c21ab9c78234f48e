"""Bus, services, pipelines and a record's way in a browser, by keyboard and by mouse."""

import json
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from playwright.sync_api import expect
from tests.compat.console.checks import sideways_px, violations, wait_until_shown
from tests.compat.console.conftest import OpenPage
from tests.compat.console.shop_program import HOSTILE, TRACE, running_shop

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_shop(tmp_path_factory.mktemp("shop")) as url:
        yield url


def test_a_node_without_a_bus_says_how_to_get_one(open_page: OpenPage) -> None:
    page = open_page("/bus")
    expect(page.get_by_text("This node runs no event bus.")).to_be_visible()
    page.goto(page.url.replace("/bus", "/services"))
    expect(page.get_by_text("No service is bound in this node.")).to_be_visible()


def test_a_request_is_sent_by_keyboard_and_answered(open_page: OpenPage, shop: str) -> None:
    page = open_page("/bus", url=shop)
    expect(page.get_by_text("shop.echo", exact=True)).to_be_visible()
    page.keyboard.press("n")
    page.keyboard.type("shop.echo")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type('{"n": 1}')
    page.keyboard.press("Tab")
    page.keyboard.type("user: mei")
    page.get_by_role("dialog").get_by_role("button", name="Send").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator("pre")).to_have_text('{"got":{"n":1}}')
    assert violations(page) == []


def test_a_tap_shows_what_passes_by_mouse(open_page: OpenPage, shop: str) -> None:
    page = open_page("/bus", url=shop)
    row = page.get_by_role("row").filter(has=page.get_by_text("shop.echo", exact=True))
    row.get_by_role("button", name="Tap").click()
    expect(page.get_by_text("Listening at shop.echo.")).to_be_visible()
    row.get_by_role("button", name="Send").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Body").fill('"<b>bold</b>"')
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.locator("pre")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    seen = page.get_by_role("region", name="Messages that passed")
    expect(seen.get_by_text("<b>bold</b>")).to_have_count(2)
    expect(page.get_by_text("2 messages seen at shop.echo.")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Close tap").click()
    expect(seen).to_have_count(0)


def test_failures_and_wrong_bodies_are_told(open_page: OpenPage, shop: str) -> None:
    page = open_page("/bus", url=shop)
    page.get_by_role("button", name="Send message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Address").fill("nobody.here")
    dialog.get_by_label("Body").fill("{")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_text("This is no JSON")).to_be_visible()
    dialog.get_by_label("Body").fill("{}")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_text("NO_HANDLERS")).to_be_visible()


def test_a_method_is_called_by_keyboard(open_page: OpenPage, shop: str) -> None:
    page = open_page("/services", url=shop)
    page.get_by_role("link", name="shop.stock").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Count the things of this name.")).to_be_visible()
    page.get_by_role("button", name="Call").focus()
    page.keyboard.press("Enter")
    arguments = page.get_by_role("dialog").get_by_label("Arguments")
    expect(arguments).to_have_value('{\n  "name": "",\n  "more": 0\n}')
    page.keyboard.press("Control+a")
    page.keyboard.type('{"name": "milk", "more": 2}')
    page.get_by_role("dialog").get_by_role("button", name="Call").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator("pre")).to_have_text("6")
    arguments.fill('{"name": "tea"}')
    page.get_by_role("dialog").get_by_role("button", name="Call").click()
    expect(page.get_by_role("dialog").get_by_text("no tea")).to_be_visible()
    assert violations(page) == []


def test_a_record_is_followed_to_its_dead_letter(open_page: OpenPage, shop: str) -> None:
    page = open_page("/trail", url=shop)
    page.get_by_label("Value").fill("order-7")
    page.keyboard.press("Enter")
    hops = page.locator(".hop")
    expect(page.get_by_text("3 places found")).to_be_visible()
    expect(hops.locator("a").filter(has_text="partition")).to_have_text(
        [
            "orders · partition 0 · offset 0",
            "payments · partition 0 · offset 0",
            "orders-dlt · partition 0 · offset 0",
        ]
    )
    expect(hops.last).to_contain_text("no stock")
    page.get_by_label("Follow by").select_option("trace")
    page.get_by_label("Value").fill(TRACE)
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("2 places found")).to_be_visible()
    assert f"trace={TRACE}" in page.url
    page.reload()
    expect(page.get_by_text("2 places found")).to_be_visible()


@pytest.mark.skipif(find_spec("opentelemetry") is None, reason="the extra tracing is not installed")
def test_spans_of_a_trace_are_on_the_same_axis(open_page: OpenPage, shop: str) -> None:
    page = open_page(f"/trail?trace={TRACE}", url=shop)
    spans = page.locator(".hop-span")
    expect(spans).to_have_count(6)
    expect(page.locator(".hop")).to_have_count(8)
    expect(spans.first).to_contain_text("request shop.echo")
    expect(spans.nth(1)).to_contain_text("process shop.echo handled took")
    expect(spans.nth(1)).to_contain_text("within request shop.echo")
    expect(spans.nth(2)).to_contain_text("request shop.<img src=x onerror=alert(1)>⟨U+202E⟩␀")
    expect(spans.last).to_contain_text("ValueError: <img src=x onerror=alert(1)>⟨U+202E⟩␀")
    details = spans.last.locator("summary")
    details.focus()
    page.keyboard.press("Enter")
    expect(spans.last).to_contain_text("messaging.destination.name")
    assert HOSTILE not in page.content()
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 800})
    assert sideways_px(page) <= 0


def test_a_node_that_traces_nothing_says_how_it_would(open_page: OpenPage) -> None:
    page = open_page(f"/trail?trace={TRACE}&topics=orders.eu")
    expect(page.get_by_text("Nothing belongs to it.")).to_be_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/bus?tap=*", "/services/shop.stock", "/trail?key=order-7"])
def test_accessible_in_both_themes_and_at_320_px(open_page: OpenPage, shop: str, path: str) -> None:
    for theme, width in (("light", 1280), ("dark", 320)):
        page = open_page(path, url=shop, theme=theme, width=width)
        wait_until_shown(page)
        assert violations(page) == []
        assert sideways_px(page) <= 0


def test_hostile_names_are_text(open_page: OpenPage, shop: str) -> None:
    page = open_page("/bus", url=shop)
    expect(page.get_by_text("shop.<img src=x onerror=alert(1)>")).to_be_visible()
    page.goto(f"{shop}/trail?key=order-7")
    expect(page.locator(".hop:not(.hop-span)").first).to_contain_text("<img src=x onerror=alert(1)>⟨U+202E⟩␀")
    assert HOSTILE not in page.content()


def test_a_console_without_pipelines_says_how_to_show_some(open_page: OpenPage) -> None:
    page = open_page("/pipelines")
    expect(page.get_by_text("This console shows no pipelines.")).to_be_visible()
    assert violations(page) == []


def test_pipelines_with_their_state_lag_and_report(open_page: OpenPage) -> None:
    row = {
        "name": "hours",
        "state": "failed",
        "since": "2026-11-28 08:00:00",
        "query": "<b>hours</b>",
        "batch": 7,
        "rows_per_second": 1_234.5,
        "batch_ms": 310,
        "lag": {"orders": 40, "payments": 2},
        "attempt": 3,
        "error": "<script>alert(1)</script> broke",
    }
    page = open_page("/pipelines", pipelines=json.dumps({"has_folder": True, "pipelines": [row]}))
    shown = page.get_by_role("row").last
    for text in ("<b>hours</b>", "attempt 3", "<script>alert(1)</script> broke", "1,235/s", "42 of 2 topics"):
        expect(shown).to_contain_text(text)
    report = page.get_by_role("link", name="Report of hours")
    expect(report).to_have_attribute("href", "/api/pipelines/hours/report")
    assert violations(page) == []
