"""The pages' files: compressed, with a tag, under a strict policy."""

import gzip

import pytest
from tests.unit.console.scene import ConsoleClient

PATHS = ("/", "/topics", "/topics/a%2Fb/messages", "/groups/g/x/y/z", "/topics/orders.eu")


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_a_page_is_the_index(client: ConsoleClient, path: str) -> None:
    answer = client.call("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.lower().startswith(b"<!doctype html>")


def test_the_policy_lets_nothing_of_others_in(client: ConsoleClient) -> None:
    headers = client.call("GET", "/").headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_files_are_packed_for_those_that_take_it(client: ConsoleClient) -> None:
    packed = client.call("GET", "/", Accept_Encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == client.call("GET", "/").body


def test_an_unchanged_file_is_not_sent_again(client: ConsoleClient) -> None:
    tag = client.call("GET", "/").headers["etag"]
    again = client.call("GET", "/", If_None_Match=tag)
    assert (again.status, again.body, again.headers["cache-control"]) == (304, b"", "no-cache")


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/assets/nothing.js", "/assets/../api.py", "/assets/%2e%2e/api.py", "/favicon.ico"]
)
def test_what_is_not_there_is_no_page(client: ConsoleClient, path: str) -> None:
    answer = client.ask("GET", path)
    assert (answer.status, answer.value["error"]["code"]) == (404, 404)
