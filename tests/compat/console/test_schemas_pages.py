"""Schemas in a browser: what confluent-kafka's client registered is read, compared, registered anew and deleted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from playwright.sync_api import Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.compat.console.conftest import OpenPage
from tests.unit.console.scene import node_with_console

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
HOSTILE = "<img src=x onerror=alert(1)>/\u202e%2F..-value"


def user(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, *fields]})


AGE = {"name": "age", "type": "int", "default": 0}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with node_with_console({"schema_registry.listen": "127.0.0.1:0"}) as node:
        fill(node)
        yield node.console_url or ""


def fill(node: EmbeddedNode) -> None:
    with SchemaRegistryClient({"url": node.schema_registry_url}) as registry:
        for subject in ("users-value", "orders-value", HOSTILE):
            registry.register_schema(subject, Schema(user(), "AVRO"))
            registry.register_schema(subject, Schema(user(AGE), "AVRO"))


def dialog(page: Page) -> Any:
    return page.get_by_role("dialog")


def dark_violations(page: Page) -> list[str]:
    """Those of the light theme, then those of the dark one."""
    found = violations(page)
    page.emulate_media(color_scheme="dark")
    return found + violations(page, "color-contrast")


def test_a_version_is_checked_and_registered_by_keyboard(open_page: OpenPage, url: str) -> None:
    page = open_page("/schemas", url=url)
    assert violations(page) == []
    page.get_by_role("link", name="users-value").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("users-value")
    expect(page.get_by_role("region", name="Schema of version 2")).to_contain_text('"name": "age"')
    page.keyboard.press("n")
    schema = dialog(page).get_by_role("textbox", name="Schema")
    schema.focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(user({"name": "size", "type": "int"}))
    check = dialog(page).get_by_role("button", name="Check compatibility")
    check.focus()
    page.keyboard.press("Enter")
    expect(dialog(page)).to_contain_text("not compatible")
    expect(dialog(page).get_by_role("listitem").first).to_contain_text("size")
    expect(dialog(page).get_by_role("button", name="Register", exact=True)).to_have_count(0)
    assert dark_violations(page) == []
    schema.focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(user(AGE, {"name": "size", "type": "int", "default": 0}))
    expect(dialog(page)).not_to_contain_text("not compatible")
    check.focus()
    page.keyboard.press("Enter")
    register = dialog(page).get_by_role("button", name="Register", exact=True)
    register.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Version 3 is registered.")).to_be_visible()
    expect(page.get_by_role("region", name="Schema of version 3")).to_contain_text('"name": "size"')


def test_versions_are_compared_and_a_level_is_set_by_mouse(open_page: OpenPage, url: str) -> None:
    page = open_page("/schemas/orders-value", url=url)
    page.get_by_role("button", name="Compare").click()
    lines = page.get_by_role("region", name="From version 1 to version 2")
    expect(lines.locator(".schema-line-added").filter(has_text='"name": "age"')).to_be_visible()
    page.get_by_role("combobox", name="From version").select_option("2")
    page.get_by_role("combobox", name="To version").select_option("1")
    page.get_by_role("button", name="Compare").click()
    back = page.get_by_role("region", name="From version 2 to version 1")
    expect(back.locator(".schema-line-removed").filter(has_text='"name": "age"')).to_be_visible()
    assert dark_violations(page) == []
    page.get_by_role("button", name="Set compatibility").click()
    dialog(page).get_by_role("combobox").select_option("FULL")
    dialog(page).get_by_role("button", name="Set compatibility").click()
    expect(page.get_by_text("FULL", exact=True)).to_be_visible()


def test_a_version_then_the_subject_are_deleted_by_their_names(open_page: OpenPage, url: str) -> None:
    page = open_page("/schemas", url=url, width=320)
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    page.get_by_role("link", name="<img src=x").click()
    expect(page.get_by_role("region", name="Schema of version 2")).to_be_visible()
    assert sideways_px(page) == 0
    page.get_by_role("combobox", name="Version", exact=True).select_option("1")
    page.get_by_role("button", name="Delete version 1").click()
    act = dialog(page).get_by_role("button", name="Delete version")
    expect(act).to_be_disabled()
    assert violations(page) == []
    dialog(page).get_by_role("textbox").fill("version 1")
    act.click()
    expect(page.get_by_role("combobox", name="Version", exact=True).locator("option")).to_have_count(1)
    page.get_by_role("button", name="Delete subject").click()
    dialog(page).get_by_role("textbox").fill(HOSTILE)
    dialog(page).get_by_role("button", name="Delete subject").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Schemas")
    expect(page.get_by_text("<img src=x")).to_have_count(0)


def test_a_subject_is_made_here(open_page: OpenPage, url: str) -> None:
    page = open_page("/schemas", url=url)
    page.get_by_role("button", name="Register schema").click()
    dialog(page).get_by_role("textbox", name="Subject").fill("made-here")
    dialog(page).get_by_role("combobox", name="Type").select_option("JSON")
    dialog(page).get_by_role("textbox", name="Schema").fill('{"type": "object"}')
    dialog(page).get_by_role("textbox", name="Imports").fill("nonsense")
    dialog(page).get_by_role("button", name="Check compatibility").click()
    expect(dialog(page)).to_contain_text("NAME SUBJECT VERSION on each line")
    dialog(page).get_by_role("textbox", name="Imports").fill("")
    dialog(page).get_by_role("button", name="Check compatibility").click()
    dialog(page).get_by_role("button", name="Register", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made-here")
