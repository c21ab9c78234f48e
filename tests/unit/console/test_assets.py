"""The pages' files: compressed, with a tag, under a strict policy."""

import gzip
import re

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


def names_in(index: bytes) -> list[str]:
    return re.findall(r'="/assets/([^"]+)"', index.decode())


@pytest.mark.parametrize("path", PATHS)
def test_the_index_names_all_that_its_page_needs_under_one_version(client: ConsoleClient, path: str) -> None:
    names = names_in(client.call("GET", path).body)
    version = names[0].partition("/")[0]
    assert all(name.startswith(f"{version}/") for name in names)
    assert {f"{version}/app.js", f"{version}/core/early.js", f"{version}/styles.css"} <= {*names}
    for name in names:
        answer = client.call("GET", f"/assets/{name}")
        assert (answer.status, answer.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")


def test_each_page_names_its_own_modules(client: ConsoleClient) -> None:
    topics, groups = (names_in(client.call("GET", path).body) for path in ("/topics", "/groups"))
    assert sum(name.endswith("/views/topics.js") for name in topics) == 1
    assert not any(name.endswith("/views/topics.js") for name in groups)


def test_a_file_of_another_version_is_the_newest_and_not_kept(client: ConsoleClient) -> None:
    """A page that is open while the node is upgraded goes on."""
    answer = client.call("GET", "/assets/0123456789abcdef/views/topics.js")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-cache")


def test_style_sheets_are_one_in_their_order(client: ConsoleClient) -> None:
    (name,) = (name for name in names_in(client.call("GET", "/").body) if name.endswith(".css"))
    whole = client.call("GET", f"/assets/{name}").body
    parts = [client.call("GET", f"/assets/styles/{each}.css").body for each in ("base", "shell", "groups")]
    assert [whole.find(part) for part in parts] == sorted(whole.find(part) for part in parts)
    assert all(part in whole for part in parts)


def test_a_first_page_is_small(client: ConsoleClient) -> None:
    """150 KB, compressed: counted for each page of the navigation."""
    for path in ("/", "/topics", "/topics/a/messages", "/groups/g", "/nodes", "/nodes/this", "/schemas/s", "/trail"):
        index = client.call("GET", path, Accept_Encoding="gzip")
        names = names_in(gzip.decompress(index.body))
        sizes = [len(client.call("GET", f"/assets/{name}", Accept_Encoding="gzip").body) for name in names]
        assert len(index.body) + sum(sizes) < 150_000, path


@pytest.mark.parametrize(
    "path",
    [
        "/api/nothing",
        "/assets/v/nothing.js",
        "/assets/nothing.js",
        "/assets/../api.py",
        "/assets/%2e%2e/api.py",
        "/favicon.ico",
    ],
)
def test_what_is_not_there_is_no_page(client: ConsoleClient, path: str) -> None:
    answer = client.ask("GET", path)
    assert (answer.status, answer.value["error"]["code"]) == (404, 404)
