"""A client of JSON over HTTP: the standard library's, with answers as values."""

import base64
import http.client
import json
from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

TIMEOUT_S = 60.0


class Answered(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def values(self) -> list[Any]:
        """Of a body with one JSON object a line."""
        return [json.loads(line) for line in self.body.splitlines()]


class JsonClient:
    """Each call has a connection of its own. `address` is HOST:PORT."""

    def __init__(self, address: str, user: str = "", password: str = "") -> None:
        self.address = address
        self._headers: dict[str, str] = {}
        if user:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **headers: str
    ) -> Answered:
        """A body that is bytes goes out as it is, any other as JSON."""
        with closing(http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            if body is not None:
                named["Content-Type"] = kind
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, {**self._headers, **named})
            answer = connection.getresponse()
            body_read, received = answer.read(), answer.headers
            # Of a header that comes twice all values, as RFC 9110 (5.3) joins them.
            joined = {name.lower(): ", ".join(received.get_all(name, [])) for name in received}
            return Answered(answer.status, body_read, joined)

    def events(self, path: str, **headers: str) -> Generator[dict[str, str], None, None]:
        """Server-sent events, until the caller closes the iterator."""
        with closing(http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", path, None, {**self._headers, **named})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            event: dict[str, str] = {}
            for raw in answer:
                name, _, text = raw.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = text
                elif "data" in event:
                    yield event
                    event = {}
