"""The login, users, ACLs and settings in a browser, on a node that asks who is there."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.compat.console.checks import sideways_px, violations, wait_until_shown
from tests.compat.console.conftest import OpenPage

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
    "console.listen": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    """The console's URL."""
    with EmbeddedNode(settings=SECURED, users={"ann": "secret-of-ann", "bob": "secret-of-bob"}) as node:
        yield node.console_url or ""


def sign_in(page: Page, user: str) -> None:
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.type(user)
    page.keyboard.press("Tab")
    page.keyboard.type(f"secret-of-{user}")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"Signed in as {user}")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_is_accessible_and_narrow(open_page: OpenPage, secured: str, theme: str) -> None:
    page = open_page("/topics", url=secured, width=320, theme=theme)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert violations(page) == []
    assert sideways_px(page) <= 0


def test_a_wrong_password_is_told_and_the_right_one_opens_the_page(open_page: OpenPage, secured: str) -> None:
    page = open_page("/settings", url=secured)
    page.get_by_label("User").fill("ann")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not accept this name and password")
    page.get_by_label("Password").fill("secret-of-ann")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_session_that_has_ended_asks_for_the_password_again(open_page: OpenPage, secured: str) -> None:
    page = open_page("/no/such/page", url=secured)
    sign_in(page, "ann")
    page.context.clear_cookies()
    page.get_by_role("link", name="Settings", exact=True).click()
    sign_in(page, "ann")
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


def test_a_user_is_added_and_deleted(open_page: OpenPage, secured: str) -> None:
    page = open_page("/security", url=secured)
    sign_in(page, "ann")
    page.get_by_role("button", name="Add user").click()
    dialog = page.get_by_role("dialog")
    page.keyboard.type("<b>carl</b>")
    page.keyboard.press("Tab")
    page.keyboard.type("secret-of-carl")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="<b>carl</b>", exact=True)).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Delete <b>carl</b>").click()
    dialog.get_by_label("Type <b>carl</b> to confirm").fill("<b>carl</b>")
    dialog.get_by_role("button", name="Delete user").click()
    expect(page.get_by_role("cell", name="<b>carl</b>", exact=True)).to_have_count(0)


def test_an_acl_is_added_and_deleted(open_page: OpenPage, secured: str) -> None:
    page = open_page("/security/acls", url=secured)
    sign_in(page, "ann")
    expect(page.get_by_text("There are no ACLs.")).to_be_visible()
    page.get_by_role("button", name="Add ACL").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("bob")
    dialog.get_by_role("button", name="Add ACL").click()
    expect(dialog.locator(".field-error").first).to_have_text("Write User:NAME.")
    dialog.get_by_label("Principal").fill("User:bob")
    dialog.get_by_label("Operation").select_option("describe")
    dialog.get_by_label("Name", exact=True).fill("orders.")
    dialog.get_by_label("The name is").select_option("prefixed")
    assert violations(page) == []
    dialog.get_by_role("button", name="Add ACL").click()
    row = page.get_by_role("row", name="User:bob")
    expect(row).to_contain_text("orders.…")
    assert violations(page) == []
    row.get_by_role("button").click()
    dialog.get_by_role("button", name="Delete ACL").click()
    expect(page.get_by_text("There are no ACLs.")).to_be_visible()


def test_a_user_without_rights_is_told_which_is_missing(open_page: OpenPage, secured: str) -> None:
    page = open_page("/security", url=secured)
    sign_in(page, "bob")
    for path in ("/security", "/security/acls", "/settings/brokers/1"):
        page.goto(secured + path)
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        assert violations(page) == []


def test_the_refused_are_listed(open_page: OpenPage, secured: str) -> None:
    page = open_page("/security/acls", url=secured)
    sign_in(page, "bob")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, "ann")
    page.goto(f"{secured}/security/refused")
    expect(page.get_by_role("row", name="User:bob").first).to_be_visible()
    assert violations(page) == []


def test_settings_of_node_and_broker(open_page: OpenPage, secured: str) -> None:
    page = open_page("/settings", url=secured)
    sign_in(page, "ann")
    expect(page.get_by_role("cell", name="console.listen", exact=True)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("console.listen")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="Broker 1").click()
    wait_until_shown(page)
    expect(page.get_by_role("cell", name="advertised.listeners", exact=True)).to_be_visible()
    assert violations(page) == []
