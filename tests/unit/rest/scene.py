"""A node with HTTP, and a client of its cluster's resources."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.http_json import Answered, JsonClient

from hutong.testing import EmbeddedNode


class RestClient(JsonClient):
    """`of` calls what is below the cluster."""

    def __init__(self, address: str, user: str = "", password: str = "") -> None:
        super().__init__(address, user, password)
        self.cluster = ""

    def begin(self) -> "RestClient":
        (found,) = self.call("GET", "/v3/clusters").value["data"]
        self.cluster = found["cluster_id"]
        return self

    def path(self, path: str) -> str:
        return f"/v3/clusters/{self.cluster}{path}"

    def of(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        return self.call(method, self.path(path), body, **headers)

    def produce(self, topic: str, *records: Any) -> list[Any]:
        body = b"".join([_encode(record) for record in records])
        answer = self.call("POST", self.path(f"/topics/{topic}/records"), body)
        assert answer.status == 200, answer.body
        return answer.values


def _encode(record: Any) -> bytes:

    return json.dumps(record).encode()


@contextmanager
def node_with_http(settings: dict[str, str] | None = None, **users: str) -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"http.listen": "127.0.0.1:0", **(settings or {})}, users=users or None) as node:
        yield node
