"""A node with a console, and a browser's session in it."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.http_json import Answered, JsonClient

from hutong.testing import EmbeddedNode

USER_PASSWORD = "secret-of-{}"


class ConsoleClient(JsonClient):
    """Keeps the cookie and the second token, as the pages do."""

    def __init__(self, node: EmbeddedNode | str) -> None:
        """Of this node's console, or of one at a URL."""
        super().__init__((node if isinstance(node, str) else node.console_url or "").removeprefix("http://"))
        self.cookie = ""
        self.csrf = ""

    def begin(self, user: str = "", password: str | None = None) -> "ConsoleClient":
        if user:
            body = {"user": user, "password": USER_PASSWORD.format(user) if password is None else password}
            answer = self.call("POST", "/api/session", body)
        else:
            answer = self.call("GET", "/api/session")
        assert answer.status == 200, answer.body
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.csrf = answer.value["csrf"]
        return self

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        named = {"Cookie": self.cookie, "X_Hutong_Csrf": self.csrf, **headers}
        return self.call(method, path, body, **named)

    def value(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON, None where there is no body."""
        answer = self.ask(method, path, body)
        assert answer.status in (200, 201, 204), (answer.status, answer.body)
        return answer.value if answer.body else None

    def stream(self, path: str) -> Generator[tuple[str, Any], None, None]:
        """Names and data of server-sent events."""
        for event in self.events(path, Cookie=self.cookie):
            yield event.get("event", "message"), json.loads(event["data"])


@contextmanager
def node_with_console(settings: dict[str, str] | None = None, **users: str) -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"console.listen": "127.0.0.1:0", **(settings or {})}, users=users or None) as node:
        yield node
