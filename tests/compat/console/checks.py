"""Checks that hold for every page of the console."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def wait_until_shown(page: Page) -> None:
    """Wait until the page has its heading and none of its parts is being loaded."""
    page.wait_for_selector("h1")
    page.wait_for_selector(".loading", state="detached")


def violations(page: Page, *rules: str) -> list[str]:
    """The rules of axe that the page breaks, with the elements that do; of all rules, or of those that are named."""
    options = {"runOnly": list(rules)} if rules else RULES
    found: list[Any] = Axe().run(page, options=options).response["violations"]
    return [f"{page.url}: {rule['id']} at {[node['html'][:120] for node in rule['nodes'][:3]]}" for rule in found]


def sideways_px(page: Page) -> int:
    """By how much the page itself is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
