"""A schema registry at a URL: that of another node as each user, and servers that are none."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import quote

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.foundation.errors import UsageError
from hutong.server.http.remote_registry import RemoteRegistryApi
from hutong.testing import EmbeddedNode
from hutong.web.answers import WebRefusal

SCHEMA = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
WIDER = (
    '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, {"name": "a", "type": "int"}]}'
)
SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
USERS = {"ann": "secret-of-ann", "bob": "secret-of-bob"}


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"schema_registry.listen": "127.0.0.1:0"}) as node:
        yield node


@pytest.fixture(scope="module")
def node(registry: EmbeddedNode) -> Iterator[EmbeddedNode]:
    with node_with_console({"console.schema_registry": f"{registry.schema_registry_url}/"}) as node:
        yield node


@pytest.mark.parametrize("subject", ["users-value", "a/b", "..", "%2e%2e", ":.eu:x", "a b?c#d"])
def test_all_is_done_over_there(client: ConsoleClient, subject: str) -> None:
    path = f"/api/schemas/{quote(subject, safe='').replace('.', '%2E')}"
    assert client.value("POST", f"{path}/versions", {"schema": SCHEMA})["version"] == 1
    (row,) = [each for each in client.value("GET", "/api/schemas")["subjects"] if each["subject"] == subject]
    assert (row["version"], row["type"], row["level"]) == (1, "AVRO", None)
    assert client.value("POST", f"{path}/versions/preview", {"schema": WIDER})["is_compatible"] is False
    assert client.ask("POST", f"{path}/versions", {"schema": WIDER}).status == 409
    client.value("PUT", f"{path}/level", {"level": "NONE"})
    assert client.value("POST", f"{path}/versions", {"schema": WIDER})["version"] == 2
    assert client.value("GET", path)["own_level"] == "NONE"
    assert client.value("GET", f"{path}/difference?from=1&to=2")["changed"] > 0
    client.value("PUT", f"{path}/level", {"level": None})
    assert client.value("DELETE", f"{path}/versions/1") == {"versions": [1]}
    assert client.value("DELETE", path) == {"versions": [2]}
    assert client.ask("GET", path).status == 404


def test_each_user_has_the_rights_of_the_registry() -> None:
    secured = {**SECURED, "schema_registry.listen": "127.0.0.1:0", "schema_registry.authentication": "basic"}
    with EmbeddedNode(settings=secured, users=USERS) as registry:
        named = {**SECURED, "console.schema_registry": registry.schema_registry_url or ""}
        with node_with_console(named, **USERS, carl="secret-of-carl") as node:
            ann, bob, carl = (ConsoleClient(node).begin(user) for user in ("ann", "bob", "carl"))
            assert ann.value("POST", "/api/schemas/users-value/versions", {"schema": SCHEMA})["version"] == 1
            assert bob.value("GET", "/api/schemas")["subjects"] == []
            assert bob.ask("GET", "/api/schemas/users-value").status == 403
            # The registry does not know the user: the session goes on.
            assert carl.ask("GET", "/api/schemas").status == 403
            assert carl.ask("GET", "/api/topics").status == 200


class Liar:
    """Answers each question with the same status and bytes."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"", dict[str, str]()
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(liar.status)
                for name, value in {"Content-Length": str(len(liar.body)), **liar.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(liar.body)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture(scope="module")
def lied_to() -> Iterator[tuple[Liar, ConsoleClient]]:
    liar = Liar()
    thread = threading.Thread(target=liar.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{liar.server.server_port}"
    with node_with_console({"console.schema_registry": url}) as node:
        yield liar, ConsoleClient(node).begin()
    liar.server.shutdown()
    thread.join()
    liar.server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<html>a proxy</html>"),
        (200, b"\xff\xfe"),
        (200, b"[" * 100_000),
        (200, b'{"subject": 7}'),
        (200, json.dumps([{"subject": "x", "version": "one", "id": 1, "schema": ""}]).encode()),
        (500, b"<b>broken</b>"),
        (500, b'{"error_code": 50001, "message": "store"}'),
        (302, b""),
    ],
)
def test_answers_that_are_none(lied_to: tuple[Liar, ConsoleClient], status: int, body: bytes) -> None:
    liar, client = lied_to
    liar.status, liar.body, liar.headers = status, body, {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
    for path in ("/api/schemas", "/api/schemas/x", "/api/schemas/x/versions/1"):
        answer = client.ask("GET", path)
        assert answer.status == 503, answer.body
        assert b"<b>" not in answer.body


def test_a_refusal_in_the_registrys_words(lied_to: tuple[Liar, ConsoleClient]) -> None:
    liar, client = lied_to
    liar.status, liar.body = 422, json.dumps({"error_code": 42201, "message": "no" * 10_000}).encode()
    answer = client.ask("POST", "/api/schemas/x/versions", {"schema": "{}"})
    assert (answer.status, answer.value["error"]["code"]) == (422, 42201)
    assert len(answer.value["error"]["message"]) == 2_000
    liar.status, liar.body = 401, b""
    assert client.ask("GET", "/api/schemas").status == 403


@pytest.mark.parametrize(
    "url",
    ["http://registry.example:8081", "ftp://x", "https://user:secret@x", "https://x/?a=b", "registry:8081", "https://"],
)
def test_urls_that_are_none(url: str) -> None:
    with (
        pytest.raises(UsageError, match=r"console\.schema_registry"),
        node_with_console({"console.schema_registry": url}),
    ):
        pass


def test_authorities_that_are_not_there() -> None:
    settings = {"console.schema_registry": "https://x", "console.schema_registry_ca": "/nothing"}
    with pytest.raises(UsageError, match="schema_registry_ca names /nothing"), node_with_console(settings):
        pass


class TokenDesk:
    """The desk of a session with this token, None for one that has ended."""

    asks_for_login = True

    def __init__(self, token: str | None) -> None:
        self._token = token

    def tokens(self, _request: Any) -> "TokenDesk":
        return self

    def of_client(self, _config: str) -> tuple[str, float]:
        if self._token is None:
            raise ValueError("the session has ended")
        return self._token, 0.0

    async def blocking(self, call: Any) -> tuple[int, bytes]:
        assert ("Authorization", f"Bearer {self._token}") in call.args[2]
        return 200, b"[1, 2]"


async def asked_by(token: str | None) -> list[int]:
    api = RemoteRegistryApi("https://x", None, cast(Any, TokenDesk(token)))
    return await api.ask(list[int], cast(Any, None), "GET", "/subjects/{subject}/versions", {"subject": "s"})


async def test_a_session_with_tokens_shows_them() -> None:
    assert await asked_by("abc") == [1, 2]
    with pytest.raises(WebRefusal) as raised:
        await asked_by(None)
    assert raised.value.status == 401


def test_a_registry_that_is_down() -> None:
    with node_with_console({"console.schema_registry": "http://127.0.0.1:1"}) as node:
        answer = ConsoleClient(node).begin().ask("GET", "/api/schemas")
        assert (answer.status, answer.value["error"]["code"]) == (503, 50301)
