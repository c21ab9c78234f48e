"""Attacks of OWASP's list, tried on every route there is: access, forgery, injection, floods, what errors show.

The numbers are those of the OWASP Top 10 of 2021; sessions and cookies have tests of their own (test_signing_in).
"""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.console.limits import BODY_BYTES_MAX
from hutong.console.openapi import BODIES
from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
PUBLIC = {("GET", "/api/session"), ("POST", "/api/session")}
WITHOUT_BODY = {"pause", "resume", "cancel"}
STREAMS = ("/search", "/tail", "/progress", "/events", "/lag", "/tap", "/trail")


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedNode]:
    with node_with_console(SECURED, ann="secret-of-ann", bob="secret-of-bob") as node:
        yield node


def routes(client: ConsoleClient) -> list[tuple[str, str]]:
    paths = client.call("GET", "/api/openapi.json").value["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def at(path: str, text: str = "x") -> str:
    """The path with something for each of its parameters."""
    numbered = re.sub(r"\{(partition|offset|number|broker)\}", "0", path)
    return re.sub(r"\{\w+\}", text, numbered)


def test_the_description_has_all_routes_and_bodies(client: ConsoleClient) -> None:
    found = routes(client)
    assert len(found) > 40
    with_body = {f"{method} {path}" for method, path in found if method in ("POST", "PUT", "PATCH")}
    assert {each for each in with_body if each.rpartition("/")[2] not in WITHOUT_BODY} == set(BODIES)


def test_a01_nothing_is_told_without_a_session(secured: EmbeddedNode) -> None:
    stranger = ConsoleClient(secured)
    for method, path in routes(stranger):
        if (method, path) not in PUBLIC:
            answer = stranger.call(method, at(path), {} if method != "GET" else None)
            assert (answer.status, answer.value["error"]["code"]) == (401, 40101), (method, path)


def test_a01_nothing_is_changed_by_a_forged_request(client: ConsoleClient) -> None:
    for method, path in routes(client):
        if method != "GET" and (method, path) not in PUBLIC:
            answer = client.ask(method, at(path), {}, X_Hutong_Csrf="")
            assert (answer.status, answer.value["error"]["code"]) == (403, 40302), (method, path)


def test_a01_nothing_is_changed_in_a_read_only_console() -> None:
    with node_with_console({"console.read_only": "true"}) as node:
        client = ConsoleClient(node).begin()
        refused = 0
        for method, path in routes(client):
            is_question = path.endswith(("/preview", "/lags", "/dry-run", "/cancel"))
            if method != "GET" and not path.startswith("/api/session") and not is_question:
                answer = client.ask(method, at(path), {})
                assert (answer.status, answer.value["error"]["code"]) == (403, 40303), (method, path)
                refused += 1
        assert refused > 12


def test_a01_a_user_without_rights_sees_and_changes_nothing(secured: EmbeddedNode) -> None:
    ann, bob = ConsoleClient(secured).begin("ann"), ConsoleClient(secured).begin("bob")
    ann.value("POST", "/api/topics", {"name": "hers", "partitions": 1})
    ann.value("POST", "/api/topics/hers/messages", {"key": {"text": "secret-key"}, "value": {"text": "secret-value"}})
    seen = 0
    for method, path in routes(bob):
        if path.startswith("/api/session") or path.endswith(STREAMS):
            continue
        answer = bob.ask(method, at(path, "hers"), {} if method != "GET" else None)
        assert answer.status != 500, (method, path, answer.body)
        assert b"secret-" not in answer.body, (method, path)
        seen += answer.status in (401, 403, 404)
    assert seen > 15
    assert [each["name"] for each in ann.value("GET", "/api/topics")["topics"] if each["name"] == "hers"] == ["hers"]
    assert bob.value("GET", "/api/topics")["topics"] == []


@pytest.mark.parametrize(
    "text",
    [
        "..%2F..%2Fetc%2Fpasswd",
        "%00",
        "a%0D%0ASet-Cookie:%20x=y",
        "%3Cscript%3E",
        "x" * 2_000,
        "%F0%9F%92%A5",
        "'%20OR%201=1",
    ],
)
def test_a03_names_that_are_none(client: ConsoleClient, text: str) -> None:
    for method, path in routes(client):
        if "{" not in path or path.endswith(STREAMS):
            continue
        answer = client.ask(method, at(path, text), {} if method != "GET" else None)
        assert answer.status != 500, (method, path, answer.body)
        assert "x=y" not in answer.headers.get("set-cookie", "")
        assert answer.headers["content-type"] == "application/json" or answer.status == 204, (method, path)


def test_a04_floods_are_bounded(client: ConsoleClient) -> None:
    with closing(http.client.HTTPConnection(client.address, timeout=60)) as connection:
        connection.putrequest("POST", "/api/topics")
        connection.putheader("Content-Length", str(BODY_BYTES_MAX + 1))
        connection.endheaders()  # it is refused before its body comes
        assert connection.getresponse().status == 413
    deep = b'{"name":' + b"[" * 100_000
    answer = client.ask("POST", "/api/topics", deep)
    assert answer.status == 400


def test_a05_every_answer_forbids_guesses_and_copies(client: ConsoleClient) -> None:
    for path in ("/", "/api/session", "/api/topics", "/api/nothing", "/assets/app.js"):
        headers = client.ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("no-store" if "/api/" in path else "no-cache")
        assert "server" not in headers


def test_a05_errors_show_nothing_of_the_program(client: ConsoleClient) -> None:
    for method, path, body in (
        ("GET", "/api/topics/nothing", None),
        ("POST", "/api/topics", b"\xff\xfe"),
        ("POST", "/api/topics", {"name": 7}),
        ("GET", "/api/trail?trace=zz", None),
    ):
        answer = client.ask(method, path, body)
        assert 400 <= answer.status < 500
        assert not re.search(rb"Traceback|File \"|hutong\.|0x[0-9a-f]{6}", answer.body), answer.body


def test_a07_a_stream_ends_with_its_session(client: ConsoleClient) -> None:
    events: Any = client.stream("/api/overview/events")
    assert next(events)
    assert client.ask("DELETE", "/api/session").status == 204
    for _ in events:
        pass  # it ends: a stream that went on would never leave this loop


def test_a09_changes_are_in_the_audit(client: ConsoleClient) -> None:
    client.value("POST", "/api/topics", {"name": "audited", "partitions": 1})
    client.value("DELETE", "/api/topics/audited")
    page = client.value("GET", "/api/topics/__hutong_console_audit/messages")
    changes = [each for each in page["records"] if "audited" in str(each)]
    assert [("topic.delete" in str(each), "topic.create" in str(each)) for each in changes] == [
        (True, False),
        (False, True),
    ]


def test_a09_leaving_early_leaves_a_trace(client: ConsoleClient) -> None:
    """A browser closes its connection and its session behind a change, which is in the audit all the same."""
    body = json.dumps({"name": "hidden.change", "partitions": 1}).encode()
    head = (
        f"POST /api/topics HTTP/1.1\r\nHost: {client.address}\r\nCookie: {client.cookie}\r\n"
        f"X-Hutong-Csrf: {client.csrf}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, _, port = client.address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
    client.ask("DELETE", "/api/session")
    client.begin()
    # Of two things that go on at the same time the audit is the later one: asked for until it is there.
    for _ in range(500):
        answer = client.ask("GET", "/api/topics/__hutong_console_audit/messages")
        if answer.status == 200 and "hidden.change" in str(answer.value["records"]):
            return
    pytest.fail("the change has left no trace")
