"""Logins at a provider that go well, and all that somebody may try with them."""

import base64
import hmac
import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.http_json import Answered
from tests.support.identity_provider import SigningKey, claims_of
from tests.support.login_provider import CLIENT, CLIENT_SECRET, LoginProvider
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.console.oidc.signing_on import BEGIN, COOKIE, RETURN
from hutong.testing import EmbeddedNode


@pytest.fixture(scope="module")
def running_provider() -> Iterator[LoginProvider]:
    with LoginProvider() as provider:
        yield provider


@pytest.fixture
def provider(running_provider: LoginProvider) -> LoginProvider:
    running_provider.forget()
    return running_provider


def settings_of(provider: LoginProvider) -> dict[str, Any]:
    return {
        "kafka.protocol": "SASL_PLAINTEXT",
        "sasl.allow_without_tls": "true",
        "sasl.enabled_mechanisms": ["SCRAM-SHA-512", "OAUTHBEARER"],
        "oauth.jwks": provider.jwks_url,
        "oauth.issuer": provider.url,
        "oauth.audience": "hutong",
        "security.authorize": "true",
        "security.super_users": "User:ann",
        "console.oidc_issuer": provider.url,
        "console.oidc_client_id": CLIENT,
        "console.oidc_client_secret": CLIENT_SECRET,
    }


@pytest.fixture(scope="module")
def node(running_provider: LoginProvider) -> Iterator[EmbeddedNode]:
    with node_with_console(settings_of(running_provider), bob="secret-of-bob") as node:
        yield node


class Browser(ConsoleClient):
    """Follows a login by hand, so that a test can change each step."""

    def __init__(self, node: EmbeddedNode, provider: LoginProvider) -> None:
        super().__init__(node)
        self.provider = provider
        self.login_cookie = ""

    def leave(self, path: str = "/topics") -> str:
        """The provider's address to which the console sends the browser."""
        answer = self.call("GET", f"{BEGIN}?{urlencode({'path': path})}")
        assert answer.status == 303, answer.body
        self.login_cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer.headers["location"]

    def come_back(self, **fields: str) -> Answered:
        cookies = "; ".join(each for each in (self.login_cookie, self.cookie) if each)
        return self.call("GET", f"{RETURN}?{urlencode(fields)}", Cookie=cookies)

    def log_in(self, user: str = "ann", path: str = "/topics") -> Answered:
        """The answer to the browser that comes back."""
        code, state = self.provider.code_of(self.leave(path), user)
        return self.come_back(code=code, state=state, iss=self.provider.url)

    def enter(self, user: str = "ann") -> "Browser":
        cookies = self.cookies_of(self.log_in(user))
        self.cookie = cookies["hutong_console"]
        self.csrf = self.ask("GET", "/api/session").value["csrf"]
        return self

    @staticmethod
    def cookies_of(answer: Answered) -> dict[str, str]:
        parts = [each.strip() for each in answer.headers.get("set-cookie", "").split(",")]
        return {each.partition("=")[0]: each.partition(";")[0] for each in parts}


@pytest.fixture
def browser(node: EmbeddedNode, provider: LoginProvider) -> Browser:
    return Browser(node, provider)


def is_refused(answer: Answered, fault: str, path: str = "/topics") -> bool:
    assert "hutong_console=" not in answer.headers.get("set-cookie", ""), "a session for a login that failed"
    return (answer.status, answer.headers["location"]) == (303, f"{path}?login={fault}")


def test_a_login_gives_the_rights_of_the_subject(browser: Browser, node: EmbeddedNode, provider: LoginProvider) -> None:
    stranger = browser.call("GET", "/api/session").value
    assert (stranger["provider"], stranger["takes_passwords"]) == (provider.url.removeprefix("http://"), True)
    browser.enter()
    assert browser.value("GET", "/api/session")["user"] == "ann"
    browser.value("POST", "/api/topics", {"name": "of.ann", "partitions": 1})
    assert "of.ann" in [each["name"] for each in browser.value("GET", "/api/topics")["topics"]]
    carl = Browser(node, provider).enter("carl")
    assert carl.value("GET", "/api/topics")["topics"] == []
    page = browser.value("GET", "/api/topics/__hutong_console_audit/messages")
    assert re.search(r"who\W+ann\b", str(page["records"]))


def test_passwords_go_on_next_to_it(node: EmbeddedNode) -> None:
    assert ConsoleClient(node).begin("bob").value("GET", "/api/session")["user"] == "bob"


def test_two_browsers_of_one_user_have_their_own_tokens(
    browser: Browser, node: EmbeddedNode, provider: LoginProvider
) -> None:
    browser.enter()
    other = Browser(node, provider).enter()
    assert other.ask("DELETE", "/api/session").status == 200
    assert browser.ask("GET", "/api/topics").status == 200
    assert other.ask("GET", "/api/topics").status == 401


def test_cookies_and_addresses(browser: Browser) -> None:
    answer = browser.call("GET", BEGIN)
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=Lax", f"Path={BEGIN}", "Max-Age=600"):
        assert part in cookie
    assert cookie.startswith(f"{COOKIE}=")
    assert CLIENT_SECRET not in answer.headers["location"]
    back = browser.log_in()
    assert "SameSite=Strict" in back.headers["set-cookie"]
    assert "Max-Age=0" in back.headers["set-cookie"], "the cookie of the login is gone"
    assert (back.headers["referrer-policy"], back.headers["cache-control"]) == ("no-referrer", "no-store")


def test_a_forged_state(browser: Browser, node: EmbeddedNode, provider: LoginProvider) -> None:
    """A page of an attacker sends somebody back with a code of the attacker's own."""
    attacker = Browser(node, provider)
    code, state = provider.code_of(attacker.leave(), "eve")
    asked = provider.requests["/token"]
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "expired", "/"), "no cookie"
    browser.leave()
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "expired", "/"), "another's"
    for forged in ("", "x", "ä", state[:-1]):
        assert is_refused(browser.come_back(code=code, state=forged, iss=provider.url), "expired", "/")
    for cookie in ("", "x", "a.b.c", "a.1.Lw", f"{attacker.login_cookie}x"):
        browser.login_cookie = f"{COOKIE}={cookie}"
        assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "expired", "/")
    assert provider.requests["/token"] == asked, "the provider is asked for nothing"


def test_an_answer_counts_once(browser: Browser, provider: LoginProvider) -> None:
    code, state = provider.code_of(browser.leave(), "ann")
    assert browser.come_back(code=code, state=state, iss=provider.url).headers["location"] == "/topics"
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "expired", "/")


def test_a_replayed_code(browser: Browser, node: EmbeddedNode, provider: LoginProvider) -> None:
    """A code of one login in another one: the provider refuses its proof (PKCE)."""
    stolen, _ = provider.code_of(Browser(node, provider).leave(), "ann")
    _, state = provider.code_of(browser.leave(), "eve")
    assert is_refused(browser.come_back(code=stolen, state=state, iss=provider.url), "refused")


@pytest.mark.parametrize("named", [{"iss": "https://evil.example"}, {"iss": ""}, {}])
def test_a_mixed_up_issuer(browser: Browser, provider: LoginProvider, named: dict[str, str]) -> None:
    """RFC 9207: the code would go to a provider that did not make it."""
    code, state = provider.code_of(browser.leave(), "ann")
    asked = provider.requests["/token"]
    assert is_refused(browser.come_back(code=code, state=state, **named), "refused")
    assert provider.requests["/token"] == asked


@pytest.mark.parametrize(
    "lie",
    [
        {"nonce": "of another login"},
        {"nonce": None},
        {"nonce": 1},
        {"aud": "another"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "ann\n"},
        {"iat": 1 << 40},
    ],
)
def test_a_wrong_id_token(browser: Browser, provider: LoginProvider, lie: dict[str, Any]) -> None:
    provider.claims = lie
    assert is_refused(browser.log_in(), "refused")


def test_an_id_token_for_several_that_this_console_asked_for(browser: Browser, provider: LoginProvider) -> None:
    provider.claims = {"aud": ["another", CLIENT], "azp": CLIENT}
    assert browser.log_in().headers["location"] == "/topics"


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(part: dict[str, Any]) -> str:
    return text_of(json.dumps(part).encode())


def unsigned(provider: LoginProvider, nonce: str) -> str:
    claims = claims_of("ann", 2_000_000_000, iss=provider.url, aud=CLIENT, nonce=nonce, iat=None)
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def test_an_id_token_without_a_signature(browser: Browser, provider: LoginProvider) -> None:
    url = browser.leave()
    code, state = provider.code_of(url, "ann")
    nonce = url.partition("nonce=")[2].partition("&")[0]
    provider.id_token = unsigned(provider, nonce)
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "refused")


def test_id_tokens_of_other_keys(browser: Browser, provider: LoginProvider) -> None:
    url = browser.leave()
    code, state = provider.code_of(url, "ann")
    nonce = url.partition("nonce=")[2].partition("&")[0]
    claims = claims_of("ann", 2_000_000_000, iss=provider.url, aud=CLIENT, nonce=nonce, iat=None)
    provider.id_token = SigningKey("first").sign(claims)
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "refused")
    # The public key as the secret of an HMAC (RFC 8725, 2.1).
    signed = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{encoded(claims)}"
    public = json.dumps(provider.keys[0].public).encode()
    provider.id_token = f"{signed}.{text_of(hmac.digest(public, signed.encode(), 'sha256'))}"
    code, state = provider.code_of(browser.leave(), "ann")
    assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "refused")


@pytest.mark.parametrize(
    "lie",
    [
        {"id_token": None},
        {"access_token": None},
        {"access_token": "a b"},
        {"access_token": "ä"},
        {"access_token": 1},
        {"token_type": "mac"},
        {"expires_in": None},
        {"expires_in": 0},
        {"expires_in": True},
        {"expires_in": "soon"},
        {"id_token": "x" * 70_000},
        {"id_token": "x.y.z"},
    ],
)
def test_odd_answers_for_a_code(browser: Browser, provider: LoginProvider, lie: dict[str, Any]) -> None:
    provider.answered = lie
    assert is_refused(browser.log_in(), "refused")


def test_a_token_that_the_brokers_refuse(browser: Browser, provider: LoginProvider) -> None:
    provider.access_claims = {"aud": "another service"}
    assert is_refused(browser.log_in(), "brokers")


def test_a_login_that_the_user_refused(browser: Browser, provider: LoginProvider) -> None:
    _, state = provider.code_of(browser.leave(), "ann")
    text = "<script>alert(1)</script>"
    back = browser.come_back(error="access_denied", error_description=text, state=state, iss=provider.url)
    assert is_refused(back, "denied")


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/api/session",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/x\r\nSet-Cookie: a=b",
        "/\x00",
        "/ä",
        "",
        "/" + "x" * 1_000,
    ],
)
def test_no_login_leads_to_another_site(browser: Browser, path: str) -> None:
    assert browser.log_in(path=path).headers["location"] == "/"


def test_a_login_leads_back_to_its_page(browser: Browser) -> None:
    assert browser.log_in(path="/topics/a%2Fb?x=%20").headers["location"] == "/topics/a%2Fb?x=%20"


def test_a_login_ends_the_session_before_it(browser: Browser) -> None:
    before = browser.enter().cookie
    browser.enter()
    assert browser.cookie != before
    assert browser.call("GET", "/api/topics", Cookie=before).status == 401


def test_logging_out_ends_the_session_here_and_there(browser: Browser, provider: LoginProvider) -> None:
    browser.enter()
    answer = browser.ask("DELETE", "/api/session")
    assert answer.value["logout_url"].startswith(f"{provider.url}/logout?id_token_hint=")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert browser.ask("GET", "/api/topics").status == 401


def test_leaving_early_leaves_a_trace(browser: Browser) -> None:
    """A logout takes the tokens away, but not those of a change whose record is still to be written."""
    browser.enter()
    body = json.dumps({"name": "hidden.change", "partitions": 1}).encode()
    head = (
        f"POST /api/topics HTTP/1.1\r\nHost: {browser.address}\r\nCookie: {browser.cookie}\r\n"
        f"X-Hutong-Csrf: {browser.csrf}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, _, port = browser.address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
    browser.ask("DELETE", "/api/session")
    browser.enter()
    for _ in range(500):
        answer = browser.ask("GET", "/api/topics/__hutong_console_audit/messages")
        if answer.status == 200 and "hidden.change" in str(answer.value["records"]):
            return
    pytest.fail("the change has left no trace")


def test_a_foreign_name_of_the_server_gets_no_login(browser: Browser) -> None:
    """The redirect address has the name in the browser's address, so that must be one of the console's."""
    assert browser.call("GET", BEGIN, Host="evil.example").status == 403


def test_odd_codes(browser: Browser, provider: LoginProvider) -> None:
    for code in ("", "x" * 5_000, "ä", "\x00"):
        _, state = provider.code_of(browser.leave(), "ann")
        assert is_refused(browser.come_back(code=code, state=state, iss=provider.url), "refused")


@pytest.mark.parametrize(
    "lie",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://evil.example/\r\nx"},
        {"code_challenge_methods_supported": ["plain"]},
    ],
)
def test_odd_descriptions(provider: LoginProvider, lie: dict[str, Any]) -> None:
    provider.described = lie
    with node_with_console(settings_of(provider), bob="x") as node:
        assert is_refused(Browser(node, provider).call("GET", f"{BEGIN}?path=/topics"), "unreachable")


def test_a_huge_description_and_a_broken_provider(provider: LoginProvider) -> None:
    with node_with_console(settings_of(provider), bob="x") as node:
        browser = Browser(node, provider)
        provider.padding = b" " * 300_000
        assert is_refused(browser.call("GET", f"{BEGIN}?path=/topics"), "unreachable")
        provider.padding = b"[" * 200_000
        assert is_refused(browser.call("GET", f"{BEGIN}?path=/topics"), "unreachable")
        provider.padding, provider.is_broken = b"", True
        assert is_refused(browser.call("GET", f"{BEGIN}?path=/topics"), "unreachable")
        provider.is_broken = False
        assert browser.log_in().headers["location"] == "/topics", "a failure is not kept"
