"""Each page of the navigation, and those below: accessible in both themes, readable at 320 px, reached by keys."""

import re
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect
from tests.compat.console.checks import sideways_px, violations, wait_until_shown
from tests.compat.console.conftest import OpenPage
from tests.compat.report import cells
from tests.support.versions import chromium_version

import hutong.console

pytestmark = pytest.mark.compat
APP: Final = (Path(hutong.console.__file__).parent / "pages/app.js").read_text()
# Those without a name in their path, and one of each other kind.
PATHS: Final = [
    # Hundreds of settings are axe's work for half a minute, and all alike.
    *(f"{path}?filter=console" if path == "/settings" else path for path in re.findall(r'\{ path: "(/[^":]*)"', APP)),
    "/topics/orders.eu",
    "/topics/orders.eu/settings",
    "/topics/nothing",
    "/settings/brokers/1?filter=listeners",
    "/no/such/page",
]


@cells("Chromium", chromium_version)("console-pages")
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_in_both_themes_and_never_scrolls_sideways(open_page: OpenPage, path: str) -> None:
    page = open_page(path)
    wait_until_shown(page)
    found = violations(page)
    # All else is the same in the dark.
    page.emulate_media(color_scheme="dark")
    found += violations(page, "color-contrast")
    for width in (320, 3840):
        page.set_viewport_size({"width": width, "height": 800})
        if sideways_px(page) > 0:
            found.append(f"wider than {width} px")
    assert found == []


def test_each_page_has_keys_that_lead_there(open_page: OpenPage) -> None:
    page = open_page("/no/such/page")
    page.keyboard.press("?")
    keys = page.locator("dialog section", has_text="Pages").locator("dl > div")
    bound = [(row.locator("kbd").all_inner_texts(), row.locator("dd").inner_text()) for row in keys.all()]
    page.keyboard.press("Escape")
    assert bound
    for pressed, does in bound:
        for key in pressed:
            page.keyboard.press(key)
        current = page.locator("nav.nav a[aria-current=page]")
        expect(current).to_have_text(does.removeprefix("Go to "))


def test_the_menu_of_a_narrow_window(open_page: OpenPage) -> None:
    page = open_page("/no/such/page", width=320)
    menu = page.get_by_role("button", name="Menu")
    topics = page.get_by_role("link", name="Topics", exact=True)
    expect(topics).to_be_hidden()
    menu.focus()
    page.keyboard.press("Enter")
    expect(topics).to_be_visible()
    assert violations(page) == []
    topics.focus()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    menu.click()
    topics.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(topics).to_be_hidden()


def test_the_theme_is_the_systems_until_one_is_chosen(open_page: OpenPage) -> None:
    page = open_page("/topics", theme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    button.click()
    expect(button).to_have_text("Theme: light")
    assert page.evaluate(ground) != dark
    page.reload()
    expect(button).to_have_text("Theme: light")
    assert page.evaluate(ground) != dark


def test_a_page_that_is_not_there_leads_back(open_page: OpenPage) -> None:
    page = open_page("/no/such/page")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    page.go_back()


def test_a_console_that_does_not_answer_says_so_and_can_be_asked_again(open_page: OpenPage) -> None:
    page = open_page("/no/such/page")
    page.route("**/api/topics*", lambda route: route.abort())
    page.get_by_role("link", name="Topics", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The console does not answer.")
    page.unroute("**/api/topics*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name="orders.eu")).to_be_visible()


def test_an_open_console_goes_on_after_the_session_has_ended(open_page: OpenPage) -> None:
    page = open_page("/no/such/page")
    page.context.clear_cookies()
    page.get_by_role("link", name="Topics", exact=True).click()
    expect(page.get_by_role("link", name="orders.eu")).to_be_visible()
