"""The login at an OpenID Connect provider that we did not write (npm: oidc-provider), in a browser.

The provider's own pages for development are used: they take any name and any password.
"""

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.compat.console.checks import sideways_px, violations
from tests.support.npm import node_modules

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
VERSION: Final = "9.13.3"
LIFE_S: Final = 4


class Scene:
    """A provider, and a node whose console it knows."""

    def __init__(self, console: str, provider: str, told: IO[str]) -> None:
        self.console = console
        self._told = told
        self.provider = provider
        self.name = urlsplit(provider).netloc

    def wait_for_renewal(self, after_s: float) -> None:
        """Wait until the provider renews tokens behind this time."""
        for line in self._told:
            kind, _, at_s = line.partition(" ")
            if kind == "renewed" and float(at_s) > after_s:
                return
        raise AssertionError("the provider has ended")


def free_port() -> int:
    """A port that nobody listens on: provider and console must know each other's before they start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def settings_of(console: str, provider: str, client: dict[str, str]) -> dict[str, Any]:
    return {
        "kafka.protocol": "SASL_PLAINTEXT",
        "sasl.allow_without_tls": "true",
        "sasl.enabled_mechanisms": ["OAUTHBEARER"],
        "oauth.jwks": f"{provider}/jwks",
        "oauth.issuer": provider,
        "oauth.audience": "hutong",
        "oauth.clock_skew_ms": "0",
        "security.authorize": "true",
        "security.super_users": "User:ann",
        "console.listen": urlsplit(console).netloc,
        "console.oidc_issuer": provider,
        "console.oidc_scope": ["openid", "offline_access", "kafka"],
        "console.oidc_parameters": ["prompt=consent"],
        **client,
    }


@pytest.fixture(scope="module", params=["with a secret", pytest.param("public", marks=pytest.mark.thorough)])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    modules = node_modules(f"oidc-provider-{VERSION}", f"oidc-provider@{VERSION}")
    console = f"http://127.0.0.1:{free_port()}"
    script = Path(__file__).with_name("provider.mjs")
    command = ["node", str(script), str(modules), str(free_port()), console, str(LIFE_S)]
    client = {"console.oidc_client_id": "public"}
    if request.param != "public":
        client = {"console.oidc_client_id": "console", "console.oidc_client_secret": "of the console"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            provider = next(line for line in process.stdout if line.startswith("http")).strip()
            with EmbeddedNode(settings=settings_of(console, provider, client)):
                yield Scene(console, provider, process.stdout)
        finally:
            process.kill()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    # The provider's pages for development ask for a font of the network.
    context.route(re.compile(r"^https?://(?!127\.0\.0\.1)"), lambda route: route.abort())
    yield context.new_page()
    context.close()


def sign_in(page: Page, scene: Scene, user: str) -> None:
    page.get_by_role("link", name=f"Sign in with {scene.name}").click()
    page.get_by_placeholder("Enter any login").fill(user)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text(f"Signed in as {user}")).to_be_visible()


def test_the_rights_are_those_of_the_tokens_subject_until_the_logout(page: Page, scene: Scene) -> None:
    page.goto(f"{scene.console}/topics")
    expect(page.get_by_label("User")).to_have_count(0)  # the brokers take no passwords
    sign_in(page, scene, "ann")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.get_by_role("button", name="Create topic").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("made.by.ann")
    page.get_by_role("dialog").get_by_role("button", name="Create topic").click()
    expect(page.get_by_text("made.by.ann").first).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(f"{scene.console}/topics")
    sign_in(page, scene, "bob")  # the provider has ended its session, too: it asks again
    expect(page.get_by_text("There are no topics yet.")).to_be_visible()


def test_a_session_outlives_its_first_tokens(page: Page, scene: Scene) -> None:
    page.goto(f"{scene.console}/topics")
    sign_in(page, scene, "ann")
    scene.wait_for_renewal(after_s=page.evaluate("Date.now()") / 1_000 + LIFE_S)
    page.get_by_role("link", name="Messages", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    page.get_by_role("link", name="Topics", exact=True).click()
    expect(page.get_by_text("made.by.ann").first).to_be_visible()
    expect(page.get_by_text("Signed in as ann")).to_be_visible()


def test_a_login_that_is_given_up_is_told(page: Page, scene: Scene) -> None:
    page.goto(f"{scene.console}/groups")
    page.get_by_role("link", name=f"Sign in with {scene.name}").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="[ Cancel ]").click()
    expect(page.get_by_role("alert")).to_have_text("The provider did not sign you in.")
    assert urlsplit(page.url).path == "/groups"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_is_accessible_and_narrow(page: Page, scene: Scene, theme: Any) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 320, "height": 800})
    for path in ("/topics", "/topics?login=unreachable", "/topics?login=<b>x</b>"):
        page.goto(scene.console + path)
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        assert page.get_by_role("alert").count() == ("unreachable" in path)
        assert violations(page) == []
        assert sideways_px(page) <= 0
