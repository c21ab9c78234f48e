"""Sessions of browsers: who is let in, and what forged requests are told."""

from collections.abc import Iterator

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedNode]:
    with node_with_console(SECURED, ann="secret-of-ann") as node:
        yield node


def test_an_open_console_gives_everybody_a_session(client: ConsoleClient) -> None:
    session = client.ask("GET", "/api/session").value
    assert (session["user"], session["needs_login"], session["has_node"]) == (None, False, True)
    assert session["csrf"] == client.csrf


def test_users_sign_in_at_the_brokers(secured: EmbeddedNode) -> None:
    stranger = ConsoleClient(secured)
    session = stranger.call("GET", "/api/session")
    assert (session.value["needs_login"], session.value["csrf"]) == (True, None)
    assert "set-cookie" not in session.headers
    ann = ConsoleClient(secured).begin("ann")
    assert ann.ask("GET", "/api/session").value["user"] == "ann"


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong"), ("eve", "secret-of-ann"), ("", "x"), ("ann", ""), ("a\0", "x"), ("a" * 300, "x")],
)
def test_strangers_are_refused_alike(secured: EmbeddedNode, user: str, password: str) -> None:
    answer = ConsoleClient(secured).call("POST", "/api/session", {"user": user, "password": password})
    assert (answer.status, answer.value["error"]["code"]) == (401, 40101)
    assert answer.value["error"]["message"] == "The brokers do not accept this name and password."
    assert "www-authenticate" not in answer.headers, "the page asks, not the browser"


def test_a_login_begins_a_new_session(secured: EmbeddedNode) -> None:
    ann = ConsoleClient(secured).begin("ann")
    before = ann.cookie
    answer = ann.ask("POST", "/api/session", {"user": "ann", "password": "secret-of-ann"})
    assert answer.headers["set-cookie"].partition(";")[0] != before
    assert ann.ask("DELETE", "/api/session").status == 401, "the session before has ended"


def test_the_cookie_is_kept_from_scripts_and_other_sites(node: EmbeddedNode) -> None:
    cookie = ConsoleClient(node).call("GET", "/api/session").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_signing_out_ends_the_session(secured: EmbeddedNode) -> None:
    ann = ConsoleClient(secured).begin("ann")
    answer = ann.ask("DELETE", "/api/session")
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
    assert ann.ask("GET", "/api/session").value["needs_login"] is True


def test_a_change_without_the_second_token_is_refused(client: ConsoleClient) -> None:
    for forged in ("", "x", "ä"):
        answer = client.ask("DELETE", "/api/session", X_Hutong_Csrf=forged.encode().decode("latin-1"))
        assert (answer.status, answer.value["error"]["code"]) == (403, 40302)
    assert client.ask("GET", "/api/session").value["csrf"] == client.csrf


def test_a_page_of_another_origin_or_name_is_refused(client: ConsoleClient) -> None:
    assert client.ask("GET", "/api/session", Origin="http://evil.example").status == 403
    assert client.ask("GET", "/", Host="evil.example").status == 403


@pytest.mark.parametrize("cookie", ["", "hutong_console=", "hutong_console=x; hutong_console=y", "a=b\x7f", "=", ";;"])
def test_odd_cookies_are_no_session(node: EmbeddedNode, cookie: str) -> None:
    answer = ConsoleClient(node).call("DELETE", "/api/session", Cookie=cookie)
    assert (answer.status, answer.value["error"]["message"]) == (401, "Sign in first.")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"user": 1}', b'{"user":"a"}', b"\xff"])
def test_odd_logins_are_refused(secured: EmbeddedNode, body: bytes) -> None:
    assert ConsoleClient(secured).call("POST", "/api/session", body).status == 400


def test_a_form_of_another_site_cannot_log_in(secured: EmbeddedNode) -> None:
    answer = ConsoleClient(secured).call("POST", "/api/session", b"user=ann", "application/x-www-form-urlencoded")
    assert answer.status == 415
