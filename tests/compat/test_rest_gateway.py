"""HTTP by clients that we did not write: curl by documented examples, a client of the v2 API, and a browser's page."""

import base64
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from tests.compat.report import cells
from tests.support.versions import chromium_version, curl_version, first_version
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(180)]
CURL = cells("curl", curl_version)
STOCK = pathlib.Path(__file__).with_name("stock_rest_client.py")


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"http.listen": "127.0.0.1:0"}) as node:
        yield node


def curl(node: EmbeddedNode, path: str, *words: str) -> str:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "60", *words]
    done = subprocess.run([*command, f"http://{node.http}{path}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cluster_of(node: EmbeddedNode) -> str:
    return str(json.loads(curl(node, "/v3/clusters"))["data"][0]["cluster_id"])


@CURL("http-produced")
def test_curl_makes_a_topic_and_streams_records_into_it(node: EmbeddedNode, tmp_path: pathlib.Path) -> None:
    topics = f"/v3/clusters/{cluster_of(node)}/topics"
    as_json = ("-H", "Content-Type: application/json")
    curl(node, topics, "-X", "POST", *as_json, "-d", '{"topic_name": "jsontest", "partitions_count": 1}')
    body = tmp_path / "records"
    lines = [json.dumps({"value": {"type": "JSON", "data": {"n": number}}}) for number in range(1_000)]
    body.write_text("\n".join(lines))
    # Chunked, as the documentation has it for streams.
    chunked = ("-H", "Transfer-Encoding: chunked")
    told = curl(node, f"{topics}/jsontest/records", "-X", "POST", *as_json, *chunked, "--data-binary", f"@{body}")
    answers = [json.loads(line) for line in told.splitlines()]
    assert {answer["error_code"] for answer in answers} == {200}
    assert [answer["offset"] for answer in answers] == list(range(1_000))
    path = f"{topics}/jsontest/partitions/0/records?offset=990&format=json"
    found = json.loads(curl(node, path))["data"]
    assert [record["value"]["data"]["n"] for record in found] == list(range(990, 1_000))


@CURL("http-followed", "http-followed-schemas")
def test_curl_follows_a_topic_with_schemas() -> None:
    with EmbeddedNode(settings={"http.listen": "127.0.0.1:0", "schema_registry.listen": "127.0.0.1:0"}) as node:
        node.create_topic("followed", partitions=1)
        topic = f"/v3/clusters/{cluster_of(node)}/topics/followed/records"
        value = {"type": "AVRO", "schema": '{"type": "array", "items": "int"}', "data": [1, 2]}
        curl(node, topic, "-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps({"value": value}))
        command = ["curl", "--silent", "--no-buffer", "--max-time", "60"]
        address = f"http://{node.http}{topic}?from=earliest&format=schema"
        with subprocess.Popen([*command, address], stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            lines = [following.stdout.readline().rstrip() for _ in range(3)]
            following.kill()
        assert lines[:2] == ["id: 0:1", "event: record"]
        shown = json.loads(lines[2].removeprefix("data: "))["value"]
        assert (shown["type"], shown["data"]) == ("AVRO", [1, 2])


@CURL("http-groups")
def test_curl_consumes_by_a_group(node: EmbeddedNode) -> None:
    v2, of_binary = "application/vnd.kafka.v2+json", "application/vnd.kafka.binary.v2+json"
    data = base64.b64encode(b"Kafka").decode()
    node.create_topic("binarytest", partitions=1)
    body = json.dumps({"records": [{"value": data}]})
    curl(node, "/topics/binarytest", "-X", "POST", "-H", f"Content-Type: {of_binary}", "--data", body)
    make = '{"name": "my_consumer_instance", "format": "binary", "auto.offset.reset": "earliest"}'
    curl(node, "/consumers/my_group", "-X", "POST", "-H", f"Content-Type: {v2}", "--data", make)
    one = "/consumers/my_group/instances/my_consumer_instance"
    topics = '{"topics": ["binarytest"]}'
    curl(node, f"{one}/subscription", "-X", "POST", "-H", f"Content-Type: {v2}", "--data", topics)
    found = json.loads(curl(node, f"{one}/records?timeout=20000", "-X", "GET", "-H", f"Accept: {of_binary}"))
    assert found == [{"topic": "binarytest", "key": None, "value": data, "partition": 0, "offset": 0}]
    curl(node, one, "-X", "DELETE", "-H", f"Content-Type: {v2}")


ACLS = {
    "http.listen": "127.0.0.1:0",
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:admin",
}


@CURL("http-rights")
def test_curl_gives_and_takes_rights() -> None:
    with EmbeddedNode(settings=ACLS, users={"admin": "secret", "ann": "hers"}) as node:
        admin, ann = ("-u", "admin:secret"), ("-u", "ann:hers")
        acls = f"/v3/clusters/{json.loads(curl(node, '/v3/clusters', *admin))['data'][0]['cluster_id']}/acls"
        acl = {
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "pattern_type": "LITERAL",
            "principal": "User:ann",
            "host": "*",
            "operation": "DESCRIBE",
            "permission": "ALLOW",
        }
        curl(node, acls, *admin, "-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps(acl))
        (found,) = json.loads(curl(node, f"{acls}?principal=User:ann", *admin))["data"]
        assert {name: found[name] for name in acl} == acl
        topics = acls.replace("/acls", "/topics")
        body = '{"topic_name": "orders", "partitions_count": 1}'
        curl(node, topics, *admin, "-X", "POST", "-H", "Content-Type: application/json", "-d", body)
        assert [each["topic_name"] for each in json.loads(curl(node, topics, *ann))["data"]] == ["orders"]
        query = "resource_type=TOPIC&pattern_type=LITERAL&operation=DESCRIBE&permission=ALLOW"
        (gone,) = json.loads(curl(node, f"{acls}?{query}", *admin, "-X", "DELETE"))["data"]
        assert gone["resource_name"] == "orders"
        assert json.loads(curl(node, topics, *ann))["data"] == []


@cells("pymapr-kafkarest (REST proxy, v2)", version("pymapr-kafkarest"))("http-produced", "http-groups")
def test_a_stock_client_of_the_v2_api_produces_and_consumes(node: EmbeddedNode) -> None:
    node.create_topic("stock", partitions=1)
    command = [sys.executable, str(STOCK), f"http://{node.http}/", "stock"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    assert [record["value"]["number"] for record in told["found"]] == [0, 1, 2]
    assert [record["offset"] for record in told["again"]] == [0, 1, 2]


PAGE = """<!doctype html><title>waiting</title><script>
const seen = [];
function take(record) {
  seen.push(record.value.data);
  if (seen.length === 3) { source.close(); fetch("/seen?" + seen.join()); }
}
const address = ADDRESS;
const source = address.startsWith("ws:") ? new WebSocket(address) : new EventSource(address);
source.addEventListener("record", (event) => take(JSON.parse(event.data)));
source.addEventListener("message", (event) => take(JSON.parse(event.data).record));
</script>"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page, from another origin than the gateway's, and hears what it has seen."""

    def __init__(self, follow: str, seen: list[str], *arguments: object) -> None:
        self.follow, self.seen = follow, seen
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.startswith("/seen?"):
            self.seen.append(self.path.partition("?")[2])
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.replace("ADDRESS", json.dumps(self.follow)).encode())

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def browser_command(browser: str, profile: pathlib.Path, page: str) -> list[str]:
    """Skips the test where the browser is not installed."""
    program = shutil.which(browser) or shutil.which("firefox-esr" if browser == "firefox" else browser)
    if program is None:
        pytest.skip(f"{browser} is not installed")
    if browser == "firefox":
        return [program, "--headless", "--no-remote", "--profile", str(profile), page]
    return [program, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", page]


FOLLOWED = ("http-followed", "http-followed-schemas")


@pytest.mark.parametrize(
    "browser",
    [
        pytest.param("chromium", marks=cells("Chromium", chromium_version)(*FOLLOWED)),
        pytest.param(
            "firefox",
            marks=[cells("Firefox", lambda: first_version("firefox"))(*FOLLOWED), pytest.mark.thorough],
        ),
    ],
)
@pytest.mark.parametrize("page", ["events", "socket"])
def test_a_browser_follows_a_topic(page: str, browser: str, tmp_path: pathlib.Path) -> None:
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    origin = f"http://127.0.0.1:{pages.server_port}"
    listeners = {"http.listen": "127.0.0.1:0", "schema_registry.listen": "127.0.0.1:0"}
    with pages, EmbeddedNode(settings={**listeners, "http.origins": origin}) as node:
        node.create_topic("watched", partitions=1)
        topic = f"/v3/clusters/{cluster_of(node)}/topics/watched/records"
        of_schema = {"type": "AVRO", "schema": '"string"'}
        for name, written in (("a", {"type": "STRING"}), ("b", of_schema), ("c", of_schema)):
            body = json.dumps({"value": {**written, "data": name}})
            curl(node, topic, "-X", "POST", "-H", "Content-Type: application/json", "-d", body)
        seen: list[str] = []
        scheme = {"events": "http", "socket": "ws"}[page]
        pages.RequestHandlerClass = functools.partial(
            Pages, f"{scheme}://{node.http}{topic}?from=earliest&format=schema", seen
        )
        pages.daemon_threads = True
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        command = browser_command(browser, tmp_path, f"{origin}/")
        # Firefox writes into its home, and refuses one that is another user's.
        home = {**os.environ, "HOME": str(tmp_path)}
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=home)
        try:
            until(lambda: bool(seen), what="three records in the page", deadline_s=90)
        finally:
            started.kill()
            started.wait()
            pages.shutdown()
    assert seen[0] == "a,b,c"
